//! Stretches of time, of which those around an instant are found without a look at all.

/// Stretches of time, each with what it is about.
pub(crate) struct Spans<T> {
    /// In the order of their beginnings.
    spans: Vec<Span<T>>,
    /// The latest end of each span and those before it.
    latest: Vec<u64>,
}

struct Span<T> {
    from: u64,
    until: u64,
    of: T,
}

impl<T> Spans<T> {
    /// Of stretches that each last from an instant until another one, both inclusive.
    pub(crate) fn new(spans: impl IntoIterator<Item = (u64, u64, T)>) -> Self {
        let mut spans: Vec<_> = spans.into_iter().map(|(from, until, of)| Span { from, until, of }).collect();
        spans.sort_by_key(|span| span.from);
        let mut end = 0;
        let latest = spans.iter().map(|span| {
            end = span.until.max(end);
            end
        });
        Self { latest: latest.collect(), spans }
    }

    /// Those that share an instant with the stretch between these two, the one that began last first.
    pub(crate) fn during(&self, from: u64, until: u64) -> impl Iterator<Item = &T> {
        let began = self.spans.partition_point(|span| span.from <= until);
        let near = (0..began).rev().take_while(move |at| self.latest[*at] >= from);
        near.map(|at| &self.spans[at]).filter(move |span| span.until >= from).map(|span| &span.of)
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_look_at_all_finds(
            spans in prop::collection::vec((0_u64..60, 0_u64..60), 0..20),
            from in 0_u64..60,
            length in 0_u64..20,
        ) {
            let until = from + length;
            let meets = |(_, (begin, end)): &(usize, &(u64, u64))| *begin <= until && *end >= from;
            let all: Vec<usize> = spans.iter().enumerate().filter(meets).map(|(at, _)| at).collect();
            let named = spans.iter().enumerate().map(|(at, (begin, end))| (*begin, *end, at));
            let mut found: Vec<usize> = Spans::new(named).during(from, until).copied().collect();
            found.sort_unstable();
            prop_assert_eq!(found, all);
        }
    }
}

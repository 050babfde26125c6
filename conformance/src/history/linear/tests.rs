//! Histories that have an order, and such that have none.

use std::time::Duration;

use super::super::event::What;
use super::super::script::{Script, TTL};
use super::*;

const MARGIN: u64 = 10;

fn promises() -> Promises {
    Promises {
        exclusion: true,
        fifo: false,
        lateness: Duration::ZERO,
        place: Duration::ZERO,
        sight: Duration::ZERO,
        single_step: true,
        sudden_ends: false,
    }
}

fn judged(script: &Script, promises: Promises, most: usize) -> Option<String> {
    let events = script.events();
    let violation = check_within("k", &events.iter().collect::<Vec<_>>(), promises, MARGIN, most);
    violation.map(|violation| violation.text)
}

fn holds(script: &Script) {
    assert_eq!(judged(script, promises(), MOST), None);
}

fn breaks(script: &Script, reason: &str) {
    let text = judged(script, promises(), MOST).expect("no order explains it");
    assert!(text.contains(reason), "{text}");
}

fn ask(op: u64, queue: bool) -> What {
    What::Ask { op, queue, handed: false, ttl: TTL }
}

#[test]
fn one_after_the_other_has_an_order() {
    holds(
        &Script::new()
            .grant("a", 1, 2, 1, 50)
            .busy("b", 3, 4, false)
            .renew("a", 5, 6, 60)
            .grant("a", 7, 8, 1, 62)
            .look(9, "a", 1, 40)
            .unlock("a", 10, 11)
            .unlocked("a", 12, 13, false)
            .grant("b", 14, 15, 2, 70)
            .grant("c", 60, 70, 3, 120)
            .unlocked("b", 71, 72, false),
    );
}

#[test]
fn calls_at_the_same_time_may_take_effect_in_any_order() {
    // The release was answered last and came first.
    holds(
        &Script::new()
            .grant("a", 1, 2, 1, 90)
            .unlock("a", 5, 30)
            .grant("b", 6, 10, 2, 60)
            .busy("c", 7, 29, false),
    );
    // The refused one asked before the release and after the next grant.
    holds(
        &Script::new()
            .grant("a", 1, 2, 1, 90)
            .busy("c", 3, 40, false)
            .unlock("a", 5, 6)
            .grant("b", 7, 8, 2, 60),
    );
    let chain = Script::new().grant("a", 1, 100, 1, 200).unlock("a", 101, 102).grant("b", 2, 99, 2, 90);
    breaks(&chain, "a was granted it with token 1");
    holds(&Script::new().grant("a", 1, 100, 2, 200).grant("b", 2, 99, 1, 90).unlock("b", 3, 100));
}

#[test]
fn a_hold_ends_by_itself_when_it_may_and_no_sooner() {
    holds(&Script::new().grant("a", 1, 2, 1, 50).grant("b", 40, 50, 2, 95));
    breaks(&Script::new().grant("a", 1, 2, 1, 50).grant("b", 40, 49, 2, 95), "held by a with token 1");
    // Nobody held it for sure when b got it, so that H1 sees nothing.
    breaks(
        &Script::new()
            .grant("a", 1, 2, 1, 90)
            .at(20, "a", What::Lost { until: 90 })
            .grant("b", 30, 31, 2, 80),
        "b was granted it",
    );
    breaks(
        &Script::new().grant("a", 1, 2, 1, 50).renew("a", 10, 11, 60).grant("b", 40, 55, 2, 95),
        "until at least 60",
    );
    let mut sudden = promises();
    sudden.sudden_ends = true;
    assert_eq!(judged(&Script::new().grant("a", 1, 2, 1, 50).grant("b", 40, 49, 2, 95), sudden, MOST), None);
}

#[test]
fn what_ended_is_not_renewed_or_released_again() {
    let over = || Script::new().grant("a", 1, 2, 1, 50).unlock("a", 3, 4);
    breaks(&over().renew("a", 5, 6, 60), "a renewal by a succeeded");
    breaks(&over().unlock("a", 5, 6), "a release by a succeeded");
    let succeeded = Script::new().grant("a", 1, 2, 1, 10).grant("b", 20, 21, 2, 22);
    breaks(&succeeded.clone().renew("a", 30, 31, 60), "held by b");
    breaks(&succeeded.unlock("a", 30, 31), "a release by a succeeded");
    breaks(&Script::new().grant("a", 1, 2, 1, 50).unlocked("a", 3, 4, false), "it does not hold it");
    let lost = Script::new().grant("a", 1, 2, 1, 50).at(3, "a", What::Renew { op: 90, ttl: TTL });
    breaks(&lost.at(4, "a", What::RenewLost { op: 90 }), "it does not hold it");
}

#[test]
fn a_refusal_needs_somebody() {
    breaks(&Script::new().busy("b", 1, 2, false), "b was told busy between 1 and 2: before that it was free");
    breaks(&Script::new().grant("a", 1, 2, 1, 50).busy("a", 3, 4, false), "a was told busy");
    breaks(
        &Script::new().grant("a", 1, 2, 1, 50).unlock("a", 3, 4).busy("b", 5, 6, false),
        "free after token 1",
    );
    holds(
        &Script::new().grant("a", 1, 2, 1, 50).busy("b", 3, 4, true).unlock("a", 5, 6).busy("c", 7, 8, false),
    );
    breaks(
        &Script::new()
            .grant("a", 1, 2, 1, 50)
            .busy("b", 3, 4, true)
            .unlock("a", 5, 6)
            .unlocked("b", 7, 8, false)
            .busy("c", 9, 10, false),
        "c was told busy",
    );
    // Of two attempts on a free lock one is granted, unless they take several steps.
    let rivals = Script::new().busy("a", 1, 5, false).busy("b", 2, 4, false);
    breaks(&rivals, "told busy");
    let mut steps = promises();
    steps.single_step = false;
    assert_eq!(judged(&rivals, steps, MOST), None);
}

#[test]
fn tokens_rise_in_the_order_of_the_grants_and_stay_under_repeats() {
    breaks(
        &Script::new().grant("a", 1, 2, 7, 50).unlock("a", 3, 4).grant("b", 5, 6, 7, 50),
        "free after token 7",
    );
    breaks(&Script::new().grant("a", 1, 2, 7, 50).grant("a", 3, 4, 8, 50), "granted it with token 8");
    holds(&Script::new().grant("a", 1, 2, 7, 50).grant("a", 60, 61, 8, 110));
}

#[test]
fn an_unknown_outcome_may_take_effect_late_or_never() {
    let unknown = |ended| {
        let script = Script::new().grant("a", 1, 2, 1, 90).at(3, "a", What::Unlock { op: 90, handed: false });
        if ended { script.at(4, "a", What::UnlockFailed { op: 90 }) } else { script }
    };
    for ended in [false, true] {
        holds(&unknown(ended).grant("b", 5, 6, 2, 60));
        holds(&unknown(ended).busy("b", 5, 6, false).renew("a", 7, 8, 95));
        breaks(&unknown(ended).grant("b", 5, 6, 2, 60).grant("c", 7, 8, 3, 60), "held by b");
    }
    let dropped = |ended| {
        let script = Script::new().at(1, "a", ask(90, false));
        if ended { script.at(2, "a", What::AskFailed { op: 90, unknown: true }) } else { script }
    };
    for ended in [false, true] {
        holds(&dropped(ended).busy("b", 5, 6, false).unlock("a", 7, 8).grant("b", 9, 10, 1, 50));
        holds(&dropped(ended).look(5, "a", 1, 20));
        breaks(&dropped(ended).busy("b", 200, 201, false), "b was told busy");
        breaks(&dropped(ended).grant("b", 5, 6, 1, 50).unlock("a", 7, 8), "a release by a succeeded");
    }
    let without =
        Script::new().at(1, "a", ask(90, false)).at(2, "a", What::AskFailed { op: 90, unknown: false });
    breaks(&without.busy("b", 5, 6, false), "b was told busy");
}

#[test]
fn what_lay_in_the_store_when_that_stopped_may_refuse_for_as_long_again_when_it_serves() {
    let story = |asks, at| {
        Script::new()
            .at(1, "a", ask(90, false))
            .at(2, "a", What::AskFailed { op: 90, unknown: asks })
            .at(30, "", What::Down)
            .at(500, "", What::Up)
            .busy("b", at, at + 1, false)
    };
    let last = 500 + TTL + MARGIN;
    holds(&story(true, last));
    breaks(&story(true, last + 1), "b was told busy");
    breaks(&story(false, last), "b was told busy");
}

#[test]
fn an_operator_may_take_it_away_at_any_moment_of_the_call() {
    let forced = Script::new()
        .at(1, "", What::Force { op: 90 })
        .grant("a", 2, 3, 1, 50)
        .grant("b", 4, 5, 2, 50)
        .at(6, "", What::Forced { op: 90 });
    holds(&forced);
    breaks(&forced.clone().grant("c", 7, 8, 3, 50), "held by b");
    let unanswered = Script::new().grant("a", 2, 3, 1, 50).at(4, "", What::Force { op: 90 });
    holds(&unanswered.grant("b", 5, 6, 2, 50));
}

#[test]
fn a_hand_over_leaves_nobody_else_in_between() {
    let handed = |by: &str| {
        Script::new()
            .grant("a", 1, 2, 1, 50)
            .at(5, by, What::Unlock { op: 90, handed: true })
            .at(5, "b", What::Ask { op: 91, queue: false, handed: true, ttl: TTL })
            .at(6, by, What::Unlocked { op: 90, released: false })
            .at(6, "b", What::Granted { op: 91, token: 2, ttl: TTL, valid_until: 55 })
    };
    holds(&handed("a"));
    breaks(&handed("c"), "b was granted it");
}

#[test]
fn what_was_not_passed_on_is_still_held() {
    let kept = Script::new()
        .grant("a", 1, 2, 1, 50)
        .at(5, "a", What::Unlock { op: 90, handed: true })
        .at(5, "b", What::Ask { op: 91, queue: false, handed: true, ttl: TTL })
        .at(6, "a", What::Kept { op: 90 })
        .at(6, "b", What::Busy { op: 91 });
    breaks(&kept.clone().grant("c", 7, 8, 2, 50), "held by a");
    holds(&kept.unlock("a", 7, 8).grant("c", 9, 10, 2, 50));
}

#[test]
fn a_sight_shows_the_holder() {
    let other = Script::new().grant("a", 1, 2, 1, 50);
    breaks(&other.clone().look(5, "b", 1, 40), "the store showed b");
    breaks(&other.clone().look(5, "a", 2, 40), "with token Some(2)");
    let nobody = |at| {
        let seen = What::Seen { op: 90, holder: None, token: None, left: None };
        other.clone().at(at, "", What::Look { op: 90 }).at(at, "", seen)
    };
    breaks(&nobody(49), "showed no holder");
    holds(&nobody(50));
}

#[test]
fn a_history_for_which_the_room_does_not_suffice_is_undecided() {
    let mut herd = Script::new();
    for number in 0..12_u64 {
        herd = herd.grant(&format!("o{number}"), number, 1000 - number, number + 1, 0);
    }
    let text = judged(&herd, promises(), 20).expect("that takes more");
    assert!(text.starts_with("undecided: 20"), "{text}");
    assert_eq!(judged(&herd, promises(), MOST), None);
}

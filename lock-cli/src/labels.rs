//! Labels on the command line, and the labels of a run.

use std::ffi::OsString;
use std::path::Path;

use distlock::Metadata;

use crate::exit::Failure;

/// Reads `name=value`.
pub(crate) fn parse(text: &str) -> Result<(String, String), String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err("a label is a name and a value; write for example team=payments".to_owned());
    };
    match Metadata::new([(name, value)]) {
        Ok(_) => Ok((name.to_owned(), value.to_owned())),
        Err(error) => Err(error.message().to_owned()),
    }
}

/// What the store is told of a run: the client's labels and the command's name, without its arguments,
/// since those may be secret; and the labels that the command line gives, which win.
pub(crate) fn of_run(
    client: &Metadata,
    command: &[OsString],
    given: &[(String, String)],
) -> Result<Metadata, Failure> {
    let mut all = with_command(client, command);
    for (name, value) in given {
        all = all.label(name, value).map_err(|error| {
            Failure::usage(format!("{}; that is --label and what is stored by itself", error.message()))
        })?;
    }
    Ok(all)
}

fn with_command(labels: &Metadata, command: &[OsString]) -> Metadata {
    let name = command.first().map(Path::new).and_then(Path::file_name);
    match name {
        Some(name) if !labels.is_empty() => {
            labels.label("command", &name.to_string_lossy()).unwrap_or_else(|_| labels.clone())
        }
        _ => labels.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(labels: &[&str]) -> Vec<(String, String)> {
        labels.iter().map(|label| parse(label).unwrap()).collect()
    }

    #[test]
    fn the_commands_label_is_its_name_without_arguments() {
        let labels = Metadata::new([("host", "a")]).unwrap();
        let all = of_run(&labels, &["/usr/bin/backup.sh".into(), "--password=x".into()], &[]).unwrap();
        assert_eq!(all.encode(), "host=a command=backup.sh");
        assert!(of_run(&Metadata::NONE, &["x".into()], &[]).unwrap().is_empty(), "metadata=off stays off");
    }

    #[test]
    fn labels_that_are_given_win_and_are_stored_with_metadata_off_too() {
        let labels = Metadata::new([("host", "a")]).unwrap();
        let all = of_run(&labels, &["x".into()], &given(&["team=a=b", "command=nightly", "note="])).unwrap();
        assert_eq!(all.encode(), "host=a team=a=b command=nightly note=");
        let alone = of_run(&Metadata::NONE, &["x".into()], &given(&["team=a"])).unwrap();
        assert_eq!(alone.encode(), "team=a");
    }

    #[test]
    fn labels_that_cannot_be_stored_are_refused() {
        assert!(parse("payments").unwrap_err().contains("team=payments"));
        assert!(parse("=x").is_err() && parse("a b=x").is_err());
        assert!(parse(&format!("a={}", "x".repeat(2000))).unwrap_err().contains("1024"));
        let many: Vec<_> = (0..40).map(|n| (format!("label{n}"), "x".repeat(30))).collect();
        let failure = of_run(&Metadata::NONE, &[], &many).unwrap_err();
        assert!(failure.exit.status() == 64 && failure.message.contains("--label"), "{}", failure.message);
    }
}

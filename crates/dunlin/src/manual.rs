//! Manual pages and shell completions, made from the commands themselves; that of dunlin.toml from the operator's guide.

mod configuration;

use crate::cli::{Cli, Completions, Man};
use crate::exit::{Exit, could_not, say};
use clap::{Command, CommandFactory};

pub fn completions(args: &Completions) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "dunlin", &mut script);
    say(String::from_utf8_lossy(&script), Exit::Done)
}

pub fn man(args: &Man) -> Exit {
    for (name, page) in pages() {
        let section = args.folder.join(format!("man{}", name.rsplit('.').next().unwrap_or_default()));
        let path = if section.is_dir() { section } else { args.folder.clone() }.join(name);
        if let Err(e) = std::fs::write(&path, page) {
            return could_not(format_args!("{} cannot be written: {e}", path.display()));
        }
    }
    Exit::Done
}

/// Every page: its file's name and its text.
pub fn pages() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    collect(&root, "dunlin", &mut all);
    all.push(("dunlin.toml.5".to_string(), configuration::page().into_bytes()));
    all
}

fn collect(command: &Command, name: &str, all: &mut Vec<(String, Vec<u8>)>) {
    // The version is that of the whole; leaving it out of the heads keeps the pages as they are from release to release.
    let page = command.clone().name(name.to_string()).version("");
    let mut text = Vec::new();
    if clap_mangen::Man::new(page).manual("Dunlin").source("dunlin").render(&mut text).is_ok() {
        all.push((format!("{name}.1"), text));
    }
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        collect(sub, &format!("{name}-{}", sub.get_name()), all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_manual_pages_are_current() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/man");
        let mut expected: Vec<String> = Vec::new();
        for (name, page) in pages() {
            let found = std::fs::read(folder.join(&name)).unwrap_or_default();
            assert!(found == page, "docs/man/{name} is out of date: run `dunlin man docs/man`");
            expected.push(name);
        }
        let mut found: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_command_has_help_with_examples() {
        fn check(command: &Command) {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name}");
            for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
                check(sub);
            }
        }
        let root = Cli::command();
        check(&root);
        for sub in root.get_subcommands().filter(|s| !s.is_hide_set() && s.get_name() != "zone") {
            let text = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(text.contains("Examples:"), "{}", sub.get_name());
        }
    }

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }
}

//! The configuration that a command line names: a file, or none, with what the line itself says on top.

use crate::cli::Source;
use crate::exit::remark;
use server::complaint::Complaint;
use server::config::{self, Config, Folders};
use std::path::{Path, PathBuf};

pub fn folders() -> Folders {
    Folders::of(|name| std::env::var(name).ok().filter(|v| !v.is_empty()))
}

/// What `serve` runs with: without -c there is no file.
pub fn of(source: &Source) -> Result<Config, Vec<Complaint>> {
    let mut config = match &source.config {
        Some(file) => config::read(file)?.with_directory(source.zones.as_deref()),
        None => config::without_file(&folders(), source.zones.as_deref()),
    };
    if let Some(dir) = &source.data_dir {
        config.set_data_dir(dir);
    }
    Ok(config.with_kept())
}

/// What `check` and `compile` look at: without -c and --zones, the dunlin.toml of this folder.
pub fn of_or_here(source: &Source) -> Result<Config, Vec<Complaint>> {
    let here = source.config.is_none() && source.zones.is_none();
    let config = if here { Some(PathBuf::from("dunlin.toml")) } else { source.config.clone() };
    of(&Source { config, ..source.clone() })
}

/// Prints complaints on stderr, and how many there are.
pub fn show(complaints: &[Complaint], file: Option<&Path>) {
    for complaint in complaints {
        remark(format_args!("{complaint}\n"));
    }
    let file = file.map_or(String::new(), |f| format!(" in {}", f.display()));
    let n = complaints.len();
    remark(format_args!("dunlin: {n} error{}{file}\n", if n == 1 { "" } else { "s" }));
}

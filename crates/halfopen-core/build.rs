//! Embeds the rule packs: `src/profiles/*.yaml` in, postcard bytes and an index out.
//!
//! Parsing YAML takes milliseconds and a parser; decoding postcard takes microseconds and neither. A pack becomes two
//! pieces, what stands beside its rules and the rules, because a run that succeeds needs only the first. Examples are
//! left out: the tests read them from the YAML.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "the bans are for the library; this runs while it is built, and reading, writing and printing is its work"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[path = "src/classify/raw.rs"]
#[expect(unreachable_pub, dead_code, reason = "it is the library's file; only a part is used here")]
mod raw;

fn main() -> Result<(), Box<dyn Error>> {
    let profiles = Path::new("src/profiles");
    println!("cargo::rerun-if-changed={}", profiles.display());
    println!("cargo::rerun-if-changed=src/classify/raw.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(profiles)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    files.retain(|file| file.extension().is_some_and(|ext| ext == "yaml"));
    // By name, as they are looked up: as paths, `aws-api.yaml` stands before `aws.yaml`.
    files.sort_by(|a, b| a.file_stem().cmp(&b.file_stem()));

    let mut sources = String::from("static SOURCES: &[(&str, &str)] = &[\n");
    let mut index = String::from("/// The packs, sorted by name.\npub(crate) static PACKS: &[Embedded] = &[\n");
    for file in &files {
        let stem = file.file_stem().and_then(|s| s.to_str()).ok_or("a profile's name is not text")?;
        let text = std::fs::read_to_string(file)?;
        let mut pack: raw::RawPack =
            serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        if pack.pack != stem {
            return Err(format!("{}: `pack: {}` is not the file's name", file.display(), pack.pack).into());
        }
        let path = std::path::absolute(file)?;
        writeln!(sources, "    ({stem:?}, include_str!({path:?})),")?;
        let mut rules = std::mem::take(&mut pack.rules);
        let judges_success = rules.iter().any(names_success);
        for rule in &mut rules {
            rule.examples = raw::RawExamples::default();
        }
        std::fs::write(out.join(format!("{stem}.pack")), postcard::to_stdvec(&pack)?)?;
        std::fs::write(out.join(format!("{stem}.rules")), postcard::to_stdvec(&rules)?)?;
        writeln!(
            index,
            "    Embedded {{ name: {stem:?}, commands: &{:?}, aliases: &{:?}, hosts: &{:?},\n        \
             judges_success: {judges_success},\n        \
             pack: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{stem}.pack\")),\n        \
             rules: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{stem}.rules\")) }},",
            pack.commands, pack.aliases, pack.hosts,
        )?;
    }
    index.push_str("];\n");
    std::fs::write(out.join("packs.rs"), index)?;
    // For the tests: the packs as they are written, examples included.
    sources.push_str("];\n");
    std::fs::write(out.join("sources.rs"), sources)?;
    Ok(())
}

/// Returns whether a rule names an outcome that says it is a success.
fn names_success(rule: &raw::RawRule) -> bool {
    rule.when.iter().chain(&rule.any).any(|condition| match condition {
        raw::RawCondition::Exit(words) => words.0.iter().any(|word| word == "0"),
        raw::RawCondition::Status(words) => words.0.iter().any(|word| word.starts_with(['2', '3'])),
        _ => false,
    })
}

//! `satchel completions` and `satchel man`: the command line for shells and for `man`, made from its one definition.

use std::{fs, io::Write, path::Path};

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::cli::{Cli, CompletionShell};

/// Prints the completions for a shell.
///
/// # Errors
/// When the output can't be written.
pub fn print_completions(shell: CompletionShell, out: &mut dyn Write) -> anyhow::Result<()> {
    let shell = match shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Fish => Shell::Fish,
    };
    // Into memory first: the generator panics where the reader closes the output, as in `satchel completions bash | head`.
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "satchel", &mut script);
    Ok(out.write_all(&script)?)
}

/// Writes the manual pages of all commands into a directory, in place of older ones.
///
/// # Errors
/// When the directory or a page can't be written.
pub fn write_pages(directory: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let shown = directory.display();
    fs::create_dir_all(directory).with_context(|| format!("failed to create the directory `{shown}`"))?;
    clap_mangen::generate_to(Cli::command(), directory)
        .with_context(|| format!("failed to write a page into `{shown}`"))?;
    writeln!(
        out,
        "the manual pages are in {shown}; read them with `man -l {}`",
        directory.join("satchel.1").display()
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of all commands that are not hidden, each with those above it.
    fn command_names(command: &clap::Command, name: &str) -> Vec<String> {
        let visible = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
        let below =
            visible.flat_map(|subcommand| command_names(subcommand, &format!("{name}-{}", subcommand.get_name())));
        std::iter::once(name.to_owned()).chain(below).collect()
    }

    #[test]
    fn every_command_has_a_manual_page() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("man/man1");
        write_pages(&target, &mut Vec::new()).unwrap();
        let names = command_names(&Cli::command(), "satchel");
        assert!(names.len() > 25 && names.contains(&"satchel-attachments-export".to_owned()), "{names:?}");
        for name in names {
            let page =
                fs::read_to_string(target.join(format!("{name}.1"))).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{name}: {page}");
        }
        let page = fs::read_to_string(target.join("satchel-send.1")).unwrap();
        assert!(page.contains("satchel send telegram:"), "it has the examples: {page}");
    }

    #[test]
    fn completions_know_commands_and_options() {
        for shell in [CompletionShell::Bash, CompletionShell::Zsh, CompletionShell::Fish] {
            let mut script = Vec::new();
            print_completions(shell, &mut script).unwrap();
            let script = String::from_utf8(script).unwrap();
            for word in ["satchel", "attachments", "conversation", "completions", "telegram-local"] {
                assert!(script.contains(word), "{shell:?} has no {word}");
            }
        }
    }
}

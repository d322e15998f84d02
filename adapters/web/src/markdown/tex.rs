//! Bounds the nesting of a formula before the library reads it.
//!
//! The library's parser calls itself for each argument that is a command without braces, and an overflow of the stack can't
//! be caught. So the formula is read here first, by the same rules and without recursion, and one that nests deeper is
//! refused. Groups in braces cost the library no stack: it keeps them in a list.

mod commands;

use std::collections::BTreeSet;

use pulldown_latex::{Parser, Storage};

use self::commands::CommandKind;

/// The maximum number of scopes within each other.
const MAX_DEPTH: usize = 48;

/// The maximum number of commands that are arguments of each other without braces, as in `\hat\mathbf x`. In a debug build
/// the library needs 16 KB of stack for each.
const MAX_UNBRACED: usize = 8;

/// A formula that the library can read on any stack: its commands are known, their arguments complete, and none is nested
/// deeper than allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BoundedTex(String);

impl BoundedTex {
    /// Reads a formula; `None` for one that is empty, isn't understood or is nested too deeply.
    pub(super) fn parse(tex: &str) -> Option<Self> {
        // Behind a wider space than this the library would cut in the midst of a character.
        let tex = remove_comments(&tex.replace(|c: char| c.is_whitespace() && !c.is_ascii(), " "));
        TexScanner { rest: &tex, scopes: Vec::new(), symbols: BTreeSet::new() }.scan()?;
        (!tex.trim().is_empty()).then_some(Self(tex))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns a formula without its comments, behind each of which the library would call itself. The line breaks stay, since
/// they may end a command's name.
fn remove_comments(tex: &str) -> String {
    let mut text = String::with_capacity(tex.len());
    let (mut is_comment, mut is_escaped) = (false, false);
    for c in tex.chars() {
        is_comment = (is_comment || (c == '%' && !is_escaped)) && c != '\n';
        is_escaped = c == '\\' && !is_escaped && !is_comment;
        if !is_comment {
            text.push(c);
        }
    }
    text
}

/// What is open at a place of a formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TexScope<'t> {
    /// A command, or `^` or `_`, that lacks so many arguments.
    Command {
        missing: usize,
    },
    Group,
    /// An optional argument.
    Bracket,
    /// What is between `\left` and `\right`.
    Fence,
    Environment(&'t str),
}

/// Reads a formula as the library does. Where the two could disagree about the end of something, the formula is refused, so
/// that what is an argument for the library is one here, too.
struct TexScanner<'t> {
    rest: &'t str,
    /// Outermost first.
    scopes: Vec<TexScope<'t>>,
    /// The commands of this formula that have turned out to be symbols.
    symbols: BTreeSet<&'t str>,
}

impl<'t> TexScanner<'t> {
    fn scan(mut self) -> Option<()> {
        while let Some(c) = self.rest.chars().next() {
            self.rest = &self.rest[c.len_utf8()..];
            match c {
                c if c.is_whitespace() => {}
                '\\' => self.scan_command()?,
                '{' => self.open(TexScope::Group)?,
                '}' => {
                    self.close(TexScope::Group)?;
                    self.complete_argument();
                }
                // The library takes none for an argument.
                '^' | '_' if self.is_argument_missing() => return None,
                '^' | '_' => self.open(TexScope::Command { missing: 1 })?,
                ']' if self.is_in_brackets() => self.close(TexScope::Bracket)?,
                '[' if self.is_in_brackets() => return None,
                _ => self.complete_argument(),
            }
        }
        self.scopes.is_empty().then_some(())
    }

    /// Reads a command whose backslash is read already.
    fn scan_command(&mut self) -> Option<()> {
        let letters = self.rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(self.rest.len());
        let length = letters.max(self.rest.chars().next()?.len_utf8());
        let (name, rest) = self.rest.split_at(length);
        self.rest = rest.trim_start();
        match self.find_kind(name)? {
            CommandKind::Symbol => self.complete_argument(),
            CommandKind::Arguments(missing) => self.open(TexScope::Command { missing })?,
            CommandKind::OptionalArgument => {
                self.open(TexScope::Command { missing: 1 })?;
                if let Some(rest) = self.rest.strip_prefix('[') {
                    self.rest = rest;
                    self.open(TexScope::Bracket)?;
                }
            }
            CommandKind::Text { groups, arguments } => {
                let before = self.rest;
                for _ in 0..groups {
                    self.skip_group()?;
                }
                let skipped = &before[..before.len() - self.rest.len()];
                // The library cuts a color that is a number in the midst of a character, and panics.
                if name.contains("color") && skipped.contains('#') && !skipped.is_ascii() {
                    return None;
                }
                match arguments {
                    0 => self.complete_argument(),
                    missing => self.open(TexScope::Command { missing })?,
                }
            }
            // Of what follows these, the library takes more than one argument's worth.
            _ if self.is_argument_missing() => return None,
            CommandKind::Standalone => {}
            CommandKind::LineBreak => self.skip_brackets()?,
            CommandKind::Left => self.open(TexScope::Fence)?,
            CommandKind::Right => self.close(TexScope::Fence)?,
            CommandKind::Begin => {
                let environment = self.take_environment()?;
                self.open(TexScope::Environment(environment))?;
                if environment.ends_with("matrix*") {
                    self.skip_brackets()?;
                }
                if matches!(environment, "alignat" | "alignat*" | "alignedat") {
                    self.check_pairs()?;
                }
            }
            CommandKind::End => {
                let environment = self.take_environment()?;
                self.close(TexScope::Environment(environment))?;
            }
        }
        Some(())
    }

    fn find_kind(&mut self, name: &'t str) -> Option<CommandKind> {
        if let Some(kind) = CommandKind::find(name) {
            return Some(kind);
        }
        let is_symbol = self.symbols.contains(name) || is_symbol(name);
        is_symbol.then(|| {
            self.symbols.insert(name);
            CommandKind::Symbol
        })
    }

    fn open(&mut self, scope: TexScope<'t>) -> Option<()> {
        self.scopes.push(scope);
        let is_command = |scope: &&TexScope<'_>| matches!(scope, TexScope::Command { .. });
        let unbraced = self.scopes.iter().rev().take_while(is_command).count();
        (self.scopes.len() <= MAX_DEPTH && unbraced <= MAX_UNBRACED).then_some(())
    }

    fn close(&mut self, scope: TexScope<'t>) -> Option<()> {
        (self.scopes.pop()? == scope).then_some(())
    }

    /// Counts what was just read as an argument, if a command lacks one. That may complete the command, and so on.
    fn complete_argument(&mut self) {
        while let Some(TexScope::Command { missing }) = self.scopes.last_mut() {
            *missing -= 1;
            if *missing > 0 {
                return;
            }
            self.scopes.pop();
        }
    }

    fn is_argument_missing(&self) -> bool {
        matches!(self.scopes.last(), Some(TexScope::Command { .. }))
    }

    /// The library ends brackets at the next one that closes, whatever it is in.
    fn is_in_brackets(&self) -> bool {
        self.scopes.contains(&TexScope::Bracket)
    }

    /// Skips a group whose content is text for the library.
    fn skip_group(&mut self) -> Option<()> {
        let content = self.rest.trim_start().strip_prefix('{')?;
        let (mut depth, mut is_escaped) = (0_usize, false);
        for (at, c) in content.char_indices() {
            match c {
                '{' if !is_escaped => depth += 1,
                '}' if !is_escaped && depth == 0 => {
                    self.rest = &content[at + 1..];
                    let may_end_brackets = self.is_in_brackets() && content[..at].contains(['[', ']']);
                    return (!may_end_brackets).then_some(());
                }
                '}' if !is_escaped => depth -= 1,
                _ => {}
            }
            is_escaped = c == '\\' && !is_escaped;
        }
        None
    }

    /// Skips a length or an alignment in brackets, if there is one.
    fn skip_brackets(&mut self) -> Option<()> {
        let Some(content) = self.rest.trim_start().strip_prefix('[') else { return Some(()) };
        let end = content.find(['[', ']', '{', '}', '\\']).filter(|end| content[*end..].starts_with(']'))?;
        self.rest = &content[end + 1..];
        Some(())
    }

    /// Checks the number of columns that follows: the library panics where it is no number, or a large one.
    fn check_pairs(&self) -> Option<()> {
        let (pairs, _) = self.rest.trim_start().strip_prefix('{')?.split_once('}')?;
        pairs.trim().parse::<u8>().ok().map(drop)
    }

    fn take_environment(&mut self) -> Option<&'t str> {
        let (name, rest) = self.rest.strip_prefix('{')?.split_once('}')?;
        self.rest = rest;
        name.chars().all(|c| c.is_ascii_alphabetic() || c == '*').then_some(name)
    }
}

/// Whether the library renders a command by itself, so that it takes no argument.
fn is_symbol(name: &str) -> bool {
    if !name.is_ascii() {
        return false;
    }
    let command = format!("\\{name}");
    let storage = Storage::new();
    let mut events = Parser::new(&command, &storage).peekable();
    // One without an event, such as `\relax`, would cost the library a call of itself.
    events.peek().is_some() && events.all(|event| event.is_ok())
}

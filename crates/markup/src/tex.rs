//! Formulas in plain characters, where these say the same: `x_1^2 \leq \frac{a}{2}` is x₁² ≤ a/2.
//!
//! What has no such characters (a matrix, an exponent within an exponent, a hat) has no plain form, and the channel shows
//! the source.

mod symbols;

use self::symbols::{SymbolRole, blackboard, subscript, superscript, symbol};

/// How deep groups are nested.
const MAX_DEPTH: usize = 16;

/// Writes a formula in plain characters; `None` where these don't say the same.
pub(crate) fn to_unicode(tex: &str) -> Option<String> {
    let text = TexReader { rest: tex, depth: 0 }.read_formula()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

struct TexReader<'tex> {
    rest: &'tex str,
    depth: usize,
}

impl TexReader<'_> {
    fn read_formula(mut self) -> Option<String> {
        let text = self.read_sequence()?;
        self.rest.is_empty().then_some(text)
    }

    /// Reads up to the end of the group, or of the formula.
    fn read_sequence(&mut self) -> Option<String> {
        let mut text = String::new();
        while let Some(c) = self.rest.chars().next() {
            if c == '}' {
                break;
            }
            self.rest = &self.rest[c.len_utf8()..];
            match c {
                c if c.is_whitespace() => push_space(&mut text),
                '~' => push_space(&mut text),
                '{' => text.push_str(&self.read_group()?),
                '^' => self.read_script(&mut text, superscript)?,
                '_' => self.read_script(&mut text, subscript)?,
                '\\' => self.read_command(&mut text)?,
                '\'' => text.push('′'),
                '-' => text.push('−'),
                '*' => text.push('∗'),
                '&' | '%' | '#' | '$' | '`' | '"' => return None,
                c => text.push(c),
            }
        }
        Some(text)
    }

    /// Reads a group of which the opening brace has been read.
    fn read_group(&mut self) -> Option<String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let text = self.read_sequence()?;
        self.rest = self.rest.strip_prefix('}')?;
        self.depth -= 1;
        Some(text)
    }

    /// Reads a group, a command or a character.
    fn read_argument(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start();
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        let mut text = String::new();
        match c {
            '{' => return self.read_group(),
            '\\' => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return None;
                }
                self.read_command(&mut text)?;
                self.depth -= 1;
            }
            '-' => text.push('−'),
            '\'' => text.push('′'),
            c if c.is_alphanumeric() || matches!(c, '+' | '=' | '(' | ')') => text.push(c),
            _ => return None,
        }
        Some(text)
    }

    fn read_script(&mut self, text: &mut String, script: fn(char) -> Option<char>) -> Option<()> {
        let argument = self.read_argument()?;
        let characters = argument.chars().filter(|c| !c.is_whitespace());
        text.truncate(text.trim_end().len());
        match argument.trim() {
            "°" | "′" if !text.is_empty() => text.push_str(argument.trim()),
            "" => return None,
            _ => text.push_str(&characters.map(script).collect::<Option<String>>()?),
        }
        Some(())
    }

    fn read_command(&mut self, text: &mut String) -> Option<()> {
        let letters = self.rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let length = if letters > 0 { letters } else { self.rest.chars().next()?.len_utf8() };
        let (name, rest) = self.rest.split_at(length);
        self.rest = rest;
        match name {
            "frac" | "dfrac" | "tfrac" => self.read_fraction(text)?,
            "sqrt" => self.read_root(text)?,
            "text" | "textrm" | "mathrm" | "operatorname" | "mbox" => text.push_str(self.read_text_argument()?),
            "mathbb" => {
                let letters = self.read_argument()?;
                text.push_str(&letters.chars().map(blackboard).collect::<Option<String>>()?);
            }
            "left" | "right" | "big" | "Big" | "bigl" | "bigr" | "Bigl" | "Bigr" => {
                self.rest = self.rest.trim_start();
                self.rest = self.rest.strip_prefix('.').unwrap_or(self.rest);
            }
            "{" | "}" | "%" | "$" | "#" | "_" | "&" => text.push_str(name),
            "|" => text.push('‖'),
            "," | ";" | ":" | " " | "quad" | "qquad" => push_space(text),
            "!" | "limits" | "nolimits" | "displaystyle" => {}
            name => self.push_symbol(name, text)?,
        }
        Some(())
    }

    fn push_symbol(&mut self, name: &str, text: &mut String) -> Option<()> {
        let (symbol, role) = symbol(name)?;
        match role {
            SymbolRole::Letter => text.push_str(symbol),
            SymbolRole::Relation => {
                push_space(text);
                text.push_str(symbol);
                text.push(' ');
                self.rest = self.rest.trim_start();
            }
            SymbolRole::Function => {
                if text.ends_with(char::is_alphanumeric) {
                    text.push(' ');
                }
                text.push_str(symbol);
                if self.rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '\\') {
                    text.push(' ');
                }
            }
        }
        Some(())
    }

    /// The words of a command whose argument is text.
    fn read_text_argument(&mut self) -> Option<&str> {
        let (words, rest) = self.rest.trim_start().strip_prefix('{')?.split_once('}')?;
        self.rest = rest;
        (!words.contains(['\\', '{', '$'])).then_some(words)
    }

    fn read_fraction(&mut self, text: &mut String) -> Option<()> {
        let (above, below) = (self.read_argument()?, self.read_argument()?);
        let (above, below) = (above.trim(), below.trim());
        if above.is_empty() || below.is_empty() || text.ends_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let fraction = format!("{}/{}", in_brackets(above, is_product(above)), in_brackets(below, is_single(below)));
        let is_factor = text.ends_with(ends_operand) || self.begins_operand();
        text.push_str(&in_brackets(&fraction, !is_factor));
        Some(())
    }

    fn read_root(&mut self, text: &mut String) -> Option<()> {
        let root = match self.rest.trim_start().strip_prefix('[') {
            None => "√",
            Some(rest) => {
                let (degree, rest) = rest.split_once(']')?;
                self.rest = rest;
                match degree.trim() {
                    "3" => "∛",
                    "4" => "∜",
                    _ => return None,
                }
            }
        };
        let radicand = self.read_argument()?;
        let radicand = radicand.trim();
        if radicand.is_empty() {
            return None;
        }
        text.push_str(root);
        text.push_str(&in_brackets(radicand, is_single(radicand) && !self.begins_operand()));
        Some(())
    }

    /// Whether what follows would be multiplied.
    fn begins_operand(&self) -> bool {
        let rest = self.rest.trim_start();
        if let Some(command) = rest.strip_prefix('\\') {
            let name = &command[..command.bytes().take_while(u8::is_ascii_alphabetic).count()];
            return !matches!(symbol(name), Some((_, SymbolRole::Relation)))
                && !matches!(name, "right" | "quad" | "qquad" | "text" | "");
        }
        rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '(' | '{' | '^' | '_' | '\''))
    }
}

fn push_space(text: &mut String) {
    if !text.is_empty() && !text.ends_with(' ') {
        text.push(' ');
    }
}

fn in_brackets(text: &str, is_plain: bool) -> String {
    if is_plain { text.to_owned() } else { format!("({text})") }
}

fn ends_operand(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, ')' | '}' | ']')
}

/// Whether a text is one number or one letter, whatever stands above and below it.
fn is_single(text: &str) -> bool {
    let is_script = |c: char| ('₀'..='ₜ').contains(&c) || matches!(c, '²' | '³' | '¹' | '⁰'..='ⁿ' | '′');
    let mut letters = text.chars().filter(|c| !is_script(*c));
    text.chars().all(|c| c.is_ascii_digit() || c == '.')
        || (letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none())
}

/// Whether a text has no sum in it; its sign may be before it.
fn is_product(text: &str) -> bool {
    let text = text.strip_prefix('−').unwrap_or(text);
    text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '′' | '²' | '³' | '¹' | '⁰'..='ⁿ' | '₀'..='ₜ' | 'π'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_written_in_plain_characters() {
        for (tex, plain) in [
            ("x_{1} = \\frac{-b}{2a}", "x₁ = −b/(2a)"),
            ("\\{1,2\\} \\subset A", "{1,2} ⊂ A"),
            ("a^2 + b^2 = c^2", "a² + b² = c²"),
            ("\\alpha \\leq \\beta", "α ≤ β"),
            ("a\\leq b", "a ≤ b"),
            ("3 \\times 10^{-5}", "3 × 10⁻⁵"),
            ("\\sum_{i=1}^{n} x_i", "∑ᵢ₌₁ⁿ xᵢ"),
            ("\\sqrt{x}", "√x"),
            ("\\sqrt{b^2-4ac}", "√(b²−4ac)"),
            ("\\frac{1}{2}x", "(1/2)x"),
            ("\\frac{a+b}{2}", "(a+b)/2"),
            ("90^\\circ", "90°"),
            ("f'(x) = 2\\sin x", "f′(x) = 2 sin x"),
            ("x \\in \\mathbb{R}", "x ∈ ℝ"),
            ("v = 3\\,\\text{m/s}", "v = 3 m/s"),
            ("\\left( a \\right)", "( a )"),
            ("E = mc^2", "E = mc²"),
            ("n", "n"),
        ] {
            assert_eq!(to_unicode(tex).as_deref(), Some(plain), "{tex}");
        }
    }

    #[test]
    fn formulas_without_plain_characters_have_no_plain_form() {
        for tex in [
            "e^{i\\pi}",
            "e^{-x^2}",
            "\\hat{x}",
            "a \\\\ b",
            "a & b",
            "\\begin{matrix}a\\end{matrix}",
            "\\int_0^{\\infty} x",
            "\\unknown x",
            "2\\frac{1}{2}",
            "{",
            "}",
            "\\frac{1}",
            "x^",
            "",
            "\\",
        ] {
            assert_eq!(to_unicode(tex), None, "{tex}");
        }
        assert_eq!(to_unicode(&"{".repeat(4_000)), None);
        assert_eq!(to_unicode(&"\\sqrt".repeat(800)), None);
    }
}

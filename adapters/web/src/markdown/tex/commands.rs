//! What follows the commands of TeX that aren't symbols. One that is missing here is shown as its source.

/// How the library reads what follows a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandKind {
    /// Nothing belongs to it.
    Symbol,
    /// So many arguments, each a group, a character or a command.
    Arguments(usize),
    /// One argument, behind an optional one in brackets.
    OptionalArgument,
    /// So many groups whose content is text, then so many arguments.
    Text {
        groups: usize,
        arguments: usize,
    },
    /// A delimiter or a length may follow, which is no argument.
    Standalone,
    /// A length in brackets may follow.
    LineBreak,
    Left,
    Right,
    Begin,
    End,
}

/// The commands of each kind, as `parser/primitives.rs` of the library has them.
const COMMANDS: [(CommandKind, &str); 14] = [
    (
        CommandKind::Arguments(1),
        "acute bar boldsymbol breve cancel check ddot dot grave hat mathbb mathbbit mathbf mathbfcal mathbffrak mathbfit \
         mathbfsfit mathbfsfup mathbfup mathbin mathcal mathclose mathfrak mathinner mathit mathnormal mathop mathopen \
         mathord mathpunct mathrel mathring mathrm mathsf mathsfit mathsfup mathtt mathup not overbrace overbracket \
         overgroup overleftarrow overleftharpoon overleftrightarrow overline overparen overrightarrow Overrightarrow \
         overrightharpoon pmod substack symbb symbbit symbf symbfcal symbffrak symbfit symbfsfit symbfsfup symbfup \
         symcal symfrak symit symnormal symrm symsf symsfit symsfup symtt symup tilde underbar underbrace underbracket \
         undergroup underleftarrow underleftrightarrow underline underparen underrightarrow vec widecheck widehat \
         wideparen widetilde",
    ),
    (CommandKind::Arguments(2), "binom cfrac dbinom dfrac frac overset stackrel tbinom tfrac underset"),
    (CommandKind::Arguments(6), "genfrac"),
    (CommandKind::OptionalArgument, "sqrt xleftarrow xrightarrow"),
    (
        CommandKind::Text { groups: 1, arguments: 0 },
        "color hspace operatorname text textbf textit textrm textsf texttt",
    ),
    (CommandKind::Text { groups: 1, arguments: 1 }, "textcolor"),
    (CommandKind::Text { groups: 2, arguments: 0 }, "colorbox"),
    (CommandKind::Text { groups: 3, arguments: 0 }, "fcolorbox Space"),
    (
        CommandKind::Standalone,
        "big Big bigg Bigg bigl Bigl biggl Biggl bigm Bigm biggm Biggm bigr Bigr biggr Biggr hdashline hline hskip kern \
         limits middle mkern mskip nolimits",
    ),
    (CommandKind::LineBreak, "\\ cr"),
    (CommandKind::Left, "left"),
    (CommandKind::Right, "right"),
    (CommandKind::Begin, "begin"),
    (CommandKind::End, "end"),
];

impl CommandKind {
    /// Returns the kind of a command, by its name without the backslash; `None` for symbols and unknown ones.
    pub(super) fn find(name: &str) -> Option<Self> {
        let has_name = |(_, names): &&(Self, &str)| names.split_ascii_whitespace().any(|each| each == name);
        COMMANDS.iter().find(has_name).map(|(kind, _)| *kind)
    }
}

//! The characters of commands, exponents and indices.

/// How a symbol is written beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolRole {
    Letter,
    /// Between two others, with blanks around it.
    Relation,
    /// The name of a function, before what it is applied to.
    Function,
}

const LETTERS: [(&str, &str); 84] = [
    ("alpha", "α"),
    ("beta", "β"),
    ("gamma", "γ"),
    ("delta", "δ"),
    ("epsilon", "ϵ"),
    ("varepsilon", "ε"),
    ("zeta", "ζ"),
    ("eta", "η"),
    ("theta", "θ"),
    ("vartheta", "ϑ"),
    ("iota", "ι"),
    ("kappa", "κ"),
    ("lambda", "λ"),
    ("mu", "μ"),
    ("nu", "ν"),
    ("xi", "ξ"),
    ("pi", "π"),
    ("rho", "ρ"),
    ("sigma", "σ"),
    ("varsigma", "ς"),
    ("tau", "τ"),
    ("upsilon", "υ"),
    ("phi", "ϕ"),
    ("varphi", "φ"),
    ("chi", "χ"),
    ("psi", "ψ"),
    ("omega", "ω"),
    ("Gamma", "Γ"),
    ("Delta", "Δ"),
    ("Theta", "Θ"),
    ("Lambda", "Λ"),
    ("Xi", "Ξ"),
    ("Pi", "Π"),
    ("Sigma", "Σ"),
    ("Upsilon", "Υ"),
    ("Phi", "Φ"),
    ("Psi", "Ψ"),
    ("Omega", "Ω"),
    ("infty", "∞"),
    ("partial", "∂"),
    ("nabla", "∇"),
    ("sum", "∑"),
    ("prod", "∏"),
    ("int", "∫"),
    ("oint", "∮"),
    ("iint", "∬"),
    ("emptyset", "∅"),
    ("varnothing", "∅"),
    ("forall", "∀"),
    ("exists", "∃"),
    ("nexists", "∄"),
    ("neg", "¬"),
    ("lnot", "¬"),
    ("ldots", "…"),
    ("dots", "…"),
    ("cdots", "⋯"),
    ("vdots", "⋮"),
    ("circ", "°"),
    ("degree", "°"),
    ("prime", "′"),
    ("hbar", "ℏ"),
    ("ell", "ℓ"),
    ("Re", "ℜ"),
    ("Im", "ℑ"),
    ("aleph", "ℵ"),
    ("angle", "∠"),
    ("triangle", "△"),
    ("top", "⊤"),
    ("bot", "⊥"),
    ("langle", "⟨"),
    ("rangle", "⟩"),
    ("lfloor", "⌊"),
    ("rfloor", "⌋"),
    ("lceil", "⌈"),
    ("rceil", "⌉"),
    ("lbrace", "{"),
    ("rbrace", "}"),
    ("lvert", "|"),
    ("rvert", "|"),
    ("vert", "|"),
    ("therefore", "∴"),
    ("because", "∵"),
    ("checkmark", "✓"),
    ("dagger", "†"),
];

const RELATIONS: [(&str, &str); 61] = [
    ("leq", "≤"),
    ("le", "≤"),
    ("geq", "≥"),
    ("ge", "≥"),
    ("neq", "≠"),
    ("ne", "≠"),
    ("lt", "<"),
    ("gt", ">"),
    ("ll", "≪"),
    ("gg", "≫"),
    ("approx", "≈"),
    ("equiv", "≡"),
    ("sim", "∼"),
    ("simeq", "≃"),
    ("cong", "≅"),
    ("propto", "∝"),
    ("times", "×"),
    ("cdot", "·"),
    ("div", "÷"),
    ("pm", "±"),
    ("mp", "∓"),
    ("ast", "∗"),
    ("in", "∈"),
    ("notin", "∉"),
    ("ni", "∋"),
    ("subset", "⊂"),
    ("subseteq", "⊆"),
    ("supset", "⊃"),
    ("supseteq", "⊇"),
    ("cup", "∪"),
    ("cap", "∩"),
    ("setminus", "∖"),
    ("land", "∧"),
    ("wedge", "∧"),
    ("lor", "∨"),
    ("vee", "∨"),
    ("oplus", "⊕"),
    ("otimes", "⊗"),
    ("perp", "⊥"),
    ("parallel", "∥"),
    ("mid", "∣"),
    ("nmid", "∤"),
    ("to", "→"),
    ("rightarrow", "→"),
    ("longrightarrow", "⟶"),
    ("leftarrow", "←"),
    ("gets", "←"),
    ("leftrightarrow", "↔"),
    ("Rightarrow", "⇒"),
    ("implies", "⇒"),
    ("Leftarrow", "⇐"),
    ("Leftrightarrow", "⇔"),
    ("iff", "⇔"),
    ("mapsto", "↦"),
    ("uparrow", "↑"),
    ("downarrow", "↓"),
    ("vdash", "⊢"),
    ("models", "⊨"),
    ("prec", "≺"),
    ("succ", "≻"),
    ("bullet", "•"),
];

const FUNCTIONS: &str = "arccos arcsin arctan arg cos cosh cot csc deg det dim exp gcd inf ker lg lim ln log max min mod sec \
    sin sinh sup tan tanh";

/// The character of a command.
pub(super) fn symbol(name: &str) -> Option<(&str, SymbolRole)> {
    let find =
        |table: &'static [(&str, &str)]| table.iter().find(|(command, _)| *command == name).map(|(_, symbol)| *symbol);
    if let Some(letter) = find(&LETTERS) {
        return Some((letter, SymbolRole::Letter));
    }
    if let Some(relation) = find(&RELATIONS) {
        return Some((relation, SymbolRole::Relation));
    }
    FUNCTIONS.split_ascii_whitespace().any(|function| function == name).then_some((name, SymbolRole::Function))
}

/// The same character as an exponent.
pub(super) fn superscript(c: char) -> Option<char> {
    const FROM: &str = "0123456789+−=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVWβγδθφχ";
    const TO: &str = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵝᵞᵟᶿᵠᵡ";
    FROM.chars().zip(TO.chars()).find(|(from, _)| *from == c).map(|(_, to)| to)
}

/// The same character as an index.
pub(super) fn subscript(c: char) -> Option<char> {
    const FROM: &str = "0123456789+−=()aehijklmnoprstuvxβγρφχ";
    const TO: &str = "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ";
    FROM.chars().zip(TO.chars()).find(|(from, _)| *from == c).map(|(_, to)| to)
}

/// The letter of a set of numbers.
pub(super) fn blackboard(c: char) -> Option<char> {
    const FROM: &str = "CHNPQRZ";
    const TO: &str = "ℂℍℕℙℚℝℤ";
    FROM.chars().zip(TO.chars()).find(|(from, _)| *from == c).map(|(_, to)| to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_have_their_counterparts() {
        assert_eq!((superscript('z'), superscript('W'), superscript('χ')), (Some('ᶻ'), Some('ᵂ'), Some('ᵡ')));
        assert_eq!((subscript('x'), subscript('χ'), subscript('b')), (Some('ₓ'), Some('ᵪ'), None));
        assert_eq!((blackboard('Z'), blackboard('A')), (Some('ℤ'), None));
    }
}

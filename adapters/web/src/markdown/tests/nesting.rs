//! No formula calls the library deeper than the smallest stack has room for, whatever is between its commands.

use std::thread;

use satchel_markup::TexFormula;

use crate::markdown::{mathml::to_mathml, tex::BoundedTex, to_html, writer::MAX_FORMULA_BYTES};

/// A quarter of the smallest stack that we use, which is that of the runtime's threads (`satchel::runtime`). The rest is for
/// what calls the renderer.
const STACK_BYTES: usize = 512 * 1024;

/// The commands of the library, behind a line about where they come from.
const COMMANDS: &str = include_str!("latex_commands.txt");

/// What may stand between a command and the next one, so that the library takes it for an argument: nothing, blanks,
/// comments, and as many other arguments as a command has.
const SEPARATORS: [&str; 29] = [
    "",
    " ",
    "\n",
    "%\n",
    "%{[\n",
    " % comment\n \n% comment\n",
    "{",
    "{}",
    "{ }%\n",
    "{1}",
    "1",
    "1 ",
    "1%\n",
    "[",
    "[]",
    "[1]",
    "[1]%\n",
    "[]{}",
    "[\\text{]",
    "[{]",
    "^",
    "_",
    "x^",
    "{}^{}_",
    "{red}",
    "{red}{red}",
    "{1em}{1em}{1em}",
    "{}{}{}{}{}",
    "(){0pt}{}1",
];

fn render(tex: &str) -> Option<String> {
    to_mathml(&TexFormula { source: tex.into(), tex: tex.into(), is_display: true, unicode: None })
}

/// A piece of a formula, as often as a formula may be long.
fn repeat_to_limit(piece: &str) -> String {
    piece.repeat(MAX_FORMULA_BYTES / piece.len())
}

/// Runs a test with a small stack. If that overflows, the process of all tests ends.
fn run_on_small_stack(test: fn()) {
    let test = thread::Builder::new().stack_size(STACK_BYTES).spawn(test).expect("a thread starts");
    test.join().expect("the test passes");
}

#[test]
fn commands_without_braces_fit_a_small_stack() {
    run_on_small_stack(|| {
        let commands = COMMANDS.lines().skip(1).flat_map(str::split_whitespace);
        let (mut symbols, mut others) = (0, 0);
        for command in commands.map(|name| format!("\\{name}")) {
            if render(&command).is_some() {
                // It takes no argument. All separators in one formula keep the test short.
                let blocks = ["", " ", "%\n", "{}"].map(|separator| {
                    let piece = format!("{command}{separator}");
                    piece.repeat(MAX_FORMULA_BYTES / 4 / piece.len())
                });
                symbols += usize::from(render(&blocks.concat()).is_some());
            } else {
                others += 1;
                for separator in SEPARATORS {
                    render(&format!("{}x", repeat_to_limit(&format!("{command}{separator}"))));
                }
            }
        }
        assert!(symbols > 600 && others > 140, "{symbols} symbols and {others} other commands");
    });
}

/// Where the end of a group is not where it seems to be, or a command takes more than an argument.
#[test]
fn misleading_formulas_fit_a_small_stack() {
    run_on_small_stack(|| {
        let chain = "\\sqrt".repeat(600);
        let hidden = [
            format!("\\begin{{matrix}}\\\\[1em \\text{{]{chain}x}}\\end{{matrix}}"),
            format!("\\begin{{matrix*}}[\\text{{r]{chain}x}}\\end{{matrix*}}"),
            format!("\\begin{{matrix}}\\text{{\\end{{matrix}}{chain}x}}\\end{{matrix}}"),
            format!("\\left(\\text{{\\right){chain}x}}\\right)"),
            format!("\\left(\\rightarrow{chain}x\\right)"),
            format!("\\sqrt[\\text{{]{chain}x}}]{{x}}"),
            format!("\\sqrt[\\begin{{a]{chain}}}]{{x}}"),
            format!("\\operatorname{{f}}{chain}x"),
        ];
        let repeated = [
            "\\relax",
            "\\relax%\n",
            "\\frac\\kern1em",
            "\\frac\\left(1\\right)",
            "\\buildrel 1\\over",
            "\\sideset{}{}",
            "\\sideset1\\sqrt",
            "\\begingroup",
            "\\mathbf^",
            "\\frac\\color{red}",
            "\\frac\\text{1}",
            "\\frac\\alpha",
            "\\frac\\%",
            "\\frac\\{",
            "\\frac\\ ",
            "\\left\\sqrt",
            "\\big\\sqrt",
        ];
        let repeated = repeated.iter().map(|piece| format!("{}x", repeat_to_limit(piece)));
        for tex in hidden.into_iter().chain(repeated) {
            assert_eq!(render(&tex), None, "{tex:.60}");
        }
    });
}

/// The text of the report: it ended the process that showed it, and again at each view.
#[test]
fn commented_roots_remain_source_text() {
    run_on_small_stack(|| {
        for tex in [format!("{}x", "\\sqrt%\n".repeat(200)), format!("{}x", "\\sqrt[]".repeat(500))] {
            let html = to_html(&format!("$${tex}$$"));
            assert!(html.starts_with("<p><code>$$\\sqrt") && !html.contains("<math"), "{html:.200}");
        }
    });
}

/// A panic is caught, but it would be reported at each view of a stored text.
#[test]
fn formulas_that_make_the_library_panic_are_refused_before() {
    for tex in [
        "\\color{#€€} x",
        "\\textcolor{#€€}{x}",
        "\\colorbox{#€€}{x}",
        "\\fcolorbox{#€€}{red}{x}",
        "\\begin{alignat}{é} a & b \\end{alignat}",
        "\\begin{alignat*}{40000} a & b \\end{alignat*}",
        "\\begin{alignedat} {é} a & b \\end{alignedat}",
    ] {
        assert_eq!(BoundedTex::parse(tex), None, "{tex}");
    }
    for tex in [
        "\\color{#1a2B3c} x",
        "\\textcolor{#ff0000}{é}",
        "\\colorbox{red}{é}",
        "\\text{#é}",
        "\\begin{alignat}{2} a & b & c & d \\end{alignat}",
    ] {
        assert!(BoundedTex::parse(tex).is_some(), "{tex}");
    }
}

#[test]
fn formulas_of_every_form_are_rendered() {
    for tex in [
        "\\sum_{i=1}^{n} i^2 = \\frac{n(n+1)(2n+1)}{6}",
        "\\int\\limits_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}",
        "\\left\\{ x \\in \\mathbb R \\mid x^2 < 2 \\right\\}",
        "\\left[ \\frac12, \\sqrt[3]{[a]} \\right)",
        "f(x) = \\begin{cases} 1 & \\text{if $x \\ge 0$} \\\\[2pt] 0 & \\text{else} \\end{cases}",
        "\\begin{aligned} [\\hat A, \\hat B] &= i\\hbar \\\\ c &= d \\end{aligned}",
        "\\begin{array}{c|c} a & b \\\\ \\hline c & d \\end{array}",
        "\\begin{pmatrix*}[r] 1 & -1 \\end{pmatrix*}",
        "\\hat\\mathbf x + x_\\mathrm{max}^\\prime + \\overline{AB}",
        "\\operatorname{arg\\,max}_{x} \\underbrace{a+b}_{n} \\xrightarrow[n]{k \\to \\infty} y",
        "\\textcolor{red}{x} + \\color{blue} y \\not= z \\not\\in A",
        "\\bigl( 5\\,\\% \\bigr) \\cdot \\$3 \\quad {}^{14}C \\genfrac{}{}{0pt}{}{a}{b}",
        "\\sqrt % a comment\n[3]{x} % another one",
        "\\hat\\hat\\hat\\hat\\hat\\hat\\hat\\hat x",
    ] {
        assert!(render(tex).is_some(), "{tex}");
    }
    let nested = |levels: usize| format!("{}x{}", "\\frac{1}{1+".repeat(levels), "}".repeat(levels));
    assert_eq!([20, 30].map(|levels| render(&nested(levels)).is_some()), [true, false]);
}

#[test]
fn comments_in_formulas_are_left_out() {
    run_on_small_stack(|| {
        let expected = "<math display=\"block\"><mi>a</mi><mi>%</mi><mi>b</mi></math>";
        let comments = repeat_to_limit("%\n");
        assert_eq!(render(&format!("a% c\n{comments}\\%b%")).as_deref(), Some(expected));
        assert_eq!(render(&comments), None);
    });
}

//! What Markdown becomes: what people mean, where links lead, and that nothing in a text is ever more than text.

mod corpus;
mod nesting;

use super::*;

fn check(cases: &[(&str, &str)]) {
    for (markdown, expected) in cases {
        assert_eq!(to_html(markdown), *expected, "{markdown:?}");
    }
}

/// A link as it is written.
fn link(address: &str, words: &str) -> String {
    format!("<a href=\"{address}\" rel=\"noopener noreferrer\" target=\"_blank\">{words}</a>")
}

#[test]
fn what_people_write_looks_as_they_mean_it() {
    check(&[
        ("", ""),
        (
            "Hello *there*, **you** ~~there~~ `a<b`",
            "<p>Hello <em>there</em>, <strong>you</strong> <del>there</del> <code>a&lt;b</code></p>",
        ),
        ("# One\n\n#### Four", "<h3>One</h3>\n<h6>Four</h6>"),
        ("a\nb\\\nc", "<p>a\nb<br>\nc</p>"),
        ("- a\n- b\n\n3. c", "<ul><li>a</li><li>b</li></ul>\n<ol start=\"3\"><li>c</li></ol>"),
        ("> quoted\n\n---", "<blockquote><p>quoted</p></blockquote>\n<hr>"),
        (
            "- [x] done\n- [ ] open",
            "<ul><li><span class=\"task\" role=\"img\" aria-label=\"done\">☑</span> done</li>\
             <li><span class=\"task\" role=\"img\" aria-label=\"to do\">☐</span> open</li></ul>",
        ),
        (
            "| a | b |\n|---|--:|\n| 1 | <2> |",
            "<div class=\"table\"><table><thead><tr><th>a</th><th class=\"right\">b</th></tr></thead>\
             <tr><td>1</td><td class=\"right\">&lt;2&gt;</td></tr></table></div>",
        ),
        ("| a |\n|---|", "<div class=\"table\"><table><thead><tr><th>a</th></tr></thead></table></div>"),
        ("```rust\nfn main() {}\n```", "<pre><code class=\"language-rust\">fn main() {}\n</code></pre>"),
        ("```c++ title=x\n\n```", "<pre><code class=\"language-c++\">\n</code></pre>"),
        ("    indented", "<pre><code>indented</code></pre>"),
    ]);
    assert_eq!(escape_text("a\n*b* <c>"), "<p class=\"plain\">a\n*b* &lt;c&gt;</p>");
}

#[test]
fn addresses_can_be_followed_where_they_stand() {
    let here = |address: &str| link(address, address);
    check(&[
        ("[x](https://a.example/?a=1&b=2)", &format!("<p>{}</p>", link("https://a.example/?a=1&amp;b=2", "x"))),
        ("<https://a.example>", &format!("<p>{}</p>", here("https://a.example"))),
        ("<me@a.example>", &format!("<p>{}</p>", link("mailto:me@a.example", "me@a.example"))),
        ("see https://a.example/a_b_c, or", &format!("<p>see {}, or</p>", here("https://a.example/a_b_c"))),
        ("(http://a.example/x_(y))", &format!("<p>({})</p>", here("http://a.example/x_(y)"))),
        ("https://a.example/?a=1&b='2'", &format!("<p>{}&#39;</p>", here("https://a.example/?a=1&amp;b=&#39;2"))),
        ("xhttps://a.example http:// https://.", "<p>xhttps://a.example http:// https://.</p>"),
        ("`https://a.example`", "<p><code>https://a.example</code></p>"),
        (
            "[https://a.example](https://b.example)",
            &format!("<p>{}</p>", link("https://b.example", "https://a.example")),
        ),
        ("HTTPS://A.example", "<p>HTTPS://A.example</p>"),
    ]);
}

#[test]
fn nothing_in_a_text_becomes_anything_but_text() {
    check(&[
        ("<script>alert(1)</script>", "<p class=\"plain\">&lt;script&gt;alert(1)&lt;/script&gt;</p>"),
        ("a <img src=x onerror=alert(1)> b", "<p>a &lt;img src=x onerror=alert(1)&gt; b</p>"),
        (
            "<div>\n<p onclick='x'>*a*</p>\n</div>",
            "<p class=\"plain\">&lt;div&gt;\n&lt;p onclick=&#39;x&#39;&gt;*a*&lt;/p&gt;\n&lt;/div&gt;</p>",
        ),
        ("[x](javascript:alert(1))", "<p>x</p>"),
        ("[x](JaVaScRiPt:alert(1))", "<p>x</p>"),
        ("[x](&#106;avascript:alert(1))", "<p>x</p>"),
        ("[x](java&#9;script:alert(1))", "<p>x</p>"),
        ("[x](&#1;javascript:alert(1))", "<p>x</p>"),
        ("[x](vbscript:x)", "<p>x</p>"),
        ("[x](data:text/html,<script>alert(1)</script>)", "<p>x</p>"),
        ("[x](file:///etc/passwd)", "<p>x</p>"),
        ("[x](/api/conversations)", "<p>x</p>"),
        ("[x](//evil.example)", "<p>x</p>"),
        ("[x](http:/evil.example)", "<p>x</p>"),
        ("[x](https://)", "<p>x</p>"),
        ("[x](<https://a.example/a&#10;b>)", "<p>x</p>"),
        ("<javascript:alert(1)>", "<p>javascript:alert(1)</p>"),
        ("![cat](https://a.example/cat.png)", &format!("<p>{}</p>", link("https://a.example/cat.png", "cat"))),
        ("![cat](data:image/png;base64,AAAA)", "<p>cat</p>"),
        (
            "![](https://a.example/\"onerror=\"x)",
            &format!("<p>{}</p>", link("https://a.example/&quot;onerror=&quot;x", "")),
        ),
        (
            "[![cat](https://a.example/cat.png)](https://b.example)",
            &format!("<p>{}</p>", link("https://b.example", "cat")),
        ),
        ("[x](https://a.example \"ti\\\"tle\")", &format!("<p>{}</p>", link("https://a.example", "x"))),
        ("```\"><script>\nx\n```", "<pre><code>x\n</code></pre>"),
        (
            "```js\"onclick=x\n</code><script>\n```",
            "<pre><code class=\"language-js\">&lt;/code&gt;&lt;script&gt;\n</code></pre>",
        ),
        (
            "| <b> |\n|---|\n| `<i>` |",
            "<div class=\"table\"><table><thead><tr><th>&lt;b&gt;</th></tr></thead><tr><td><code>&lt;i&gt;</code></td></tr></table></div>",
        ),
        ("&lt;script&gt; &#60;b&#62;", "<p>&lt;script&gt; &lt;b&gt;</p>"),
        ("a\0b", "<p>a\u{FFFD}b</p>"),
    ]);
}

#[test]
fn url_with_a_million_brackets_is_linked_quickly() {
    for (open, close) in [("(", ")"), ("[", "]"), ("{", "}")] {
        let many = |bracket: &str| bracket.repeat(1 << 20);
        let (stray, paired) = (many(close), format!("{}{}", many(open), many(close)));
        for (tail, inside, outside) in [
            (stray.as_str(), "", stray.as_str()),
            (&paired, &paired, ""),
            (&format!("{paired}{close}."), &paired, &format!("{close}.")),
        ] {
            let began = std::time::Instant::now();
            let html = to_html(&format!("http://a{tail}"));
            assert!(began.elapsed().as_secs() < 5, "{close}");
            let address = format!("http://a{inside}");
            assert!(html == format!("<p>{}{outside}</p>", link(&address, &address)), "{close}");
        }
    }
}

/// Every tag that is written is one of ours, and each is closed in its order.
#[test]
fn whatever_comes_elements_are_ours_and_closed() {
    let nested = format!("{}x", "> - ".repeat(500));
    let brackets = "[".repeat(20_000);
    let table = format!("|{}\n|{}\n{}", "a|".repeat(300), "-|".repeat(300), "a|\n".repeat(3_000));
    assert_eq!(to_html(&table), escape_text(&table), "a table that would grow a hundredfold stays text");
    let emphasis = format!("{}a{}", "*_".repeat(2_000), "_*".repeat(2_000));
    let quotes = ">".repeat(100_000);
    let mixed = "- **a [b](https://c) `d`**\n\n  > 1. e\n\n| f |\n|:-:|\n| <g> |\n";
    for text in [&nested, &brackets, &table, &emphasis, &quotes, mixed] {
        let began = std::time::Instant::now();
        let html = to_html(text);
        assert!(began.elapsed().as_secs() < 5, "{:.40}", text);
        assert!(html.len() <= text.len() * 33 + 70_000, "{} of {}: {:.40}", html.len(), text.len(), text);
        let mut open: Vec<&str> = Vec::new();
        for tag in html.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').expect("a tag ends");
            let name = tag.split(' ').next().unwrap();
            match name.strip_prefix('/') {
                Some(closed) => assert_eq!(open.pop(), Some(closed)),
                None if ["br", "hr"].contains(&name) => {}
                None => open.push(name),
            }
            assert!(open.len() < 120, "{:.40}", text);
        }
        assert_eq!(open, Vec::<&str>::new());
    }
}

#[test]
fn a_growing_text_changes_at_its_end() {
    let text = "# Title\n\nFirst.\n\n- one\n- two\n\n```rust\nfn a() {}\n```\n\nLast.";
    let whole = to_html_blocks(text);
    assert_eq!(whole.len(), 5);
    for end in 0..text.len() {
        let grown = to_html_blocks(&text[..end]);
        let settled = grown.len().saturating_sub(1);
        assert_eq!(grown[..settled], whole[..settled], "{:?}", &text[..end]);
    }
}

#[test]
fn formulas_become_mathml() {
    let inline = "<math display=\"inline\"><msup><mi>a</mi><mn>2</mn></msup></math>";
    check(&[
        ("$a^2$", &format!("<p>{inline}</p>")),
        ("so \\(a^2\\), and", &format!("<p>so {inline}, and</p>")),
        ("**$a^2$**", &format!("<p><strong>{inline}</strong></p>")),
        ("$$x$$", "<p><math display=\"block\"><mi>x</mi></math></p>"),
        ("\\[\nx\n- y\n\\]", "<p><math display=\"block\"><mi>x</mi><mo>−</mo><mi>y</mi></math></p>"),
        (
            "$x \\text{ if } y$",
            "<p><math display=\"inline\"><mi>x</mi><mtext>\u{a0}if\u{a0}</mtext><mi>y</mi></math></p>",
        ),
        // What isn't understood is shown as it was written.
        ("$\\unknown{<b>}$", "<p><code>$\\unknown{&lt;b&gt;}$</code></p>"),
    ]);
}

#[test]
fn amounts_and_code_are_no_formulas() {
    for text in [
        "costs $5 and $6",
        "$20M–$30M",
        "$5, not 6$",
        "from US$5 to A$6",
        "a $ b $ c",
        "\\$a$ and",
        "$a\n\nb$",
        "| $a | b$ |\n|---|---|",
        "`$a$` and `\\(a\\)`",
        "```\n$$a$$\n```",
        "https://a.example/?x=$y$",
        "[x](https://a.example/$y$)",
        "$$",
        "\\(",
        "$$$$",
    ] {
        assert!(!to_html(text).contains("<math"), "{text}: {}", to_html(text));
    }
    check(&[
        ("`$a$`", "<p><code>$a$</code></p>"),
        ("\u{F0000} $a$", "<p>\u{F0000} <math display=\"inline\"><mi>a</mi></math></p>"),
    ]);
}

#[test]
fn hostile_formulas_stay_small_and_harmless() {
    for tex in [
        "\\text{<script>alert(1)</script>}",
        "\\operatorname{<img src=x onerror=alert(1)>}",
        "\\href{javascript:alert(1)}{x}",
        "\\style{position:fixed}{x}",
        "\\color{red}x",
        "\\def\\a{xx}\\def\\b{\\a\\a}\\b",
        "a < b \\& c",
        "\\mathrm{&lt;}",
        // What makes the library panic.
        "\\char é",
        "\\char 99999999999999999999",
        "a\\hspace{1em\u{a0}}b",
        "a\\kern 1em\u{3000}b",
        "\\begin{alignat}{é}x\\end{alignat}",
    ] {
        let html = to_html(&format!("${tex}$"));
        for tag in ["<script", "<img", "href", "style"] {
            assert!(!html.replace("<code>$\\href", "").replace("<code>$\\style", "").contains(tag), "{tex}: {html}");
        }
        assert!(html.len() < 2_000, "{tex}: {html}");
    }
    for hostile in ["{", "\\sqrt", "\\frac", "\\left(", "\\begin{matrix}", "x^", "\\hat", "\\sqrt "] {
        let tex = hostile.repeat(3_900 / hostile.len());
        assert!(to_html(&format!("$${tex}$$")).contains("<code>"), "{hostile}");
    }
    // Nor does a reference to a private character bring one once more.
    let formula = "<math display=\"inline\"><mi>a</mi></math>";
    assert_eq!(to_html("$a$ &#xF0000;"), format!("<p>{formula} \u{F0000}</p>"));
    assert_eq!(to_html("$a$ [x](https://a.example/&#xF0000;)").matches("<math").count(), 1);
    let many = "\\(\\[$$$a$ ".repeat(20_000);
    assert!(to_html(&many).len() < 32 * many.len());
    let formulas = to_html(&"$a$ ".repeat(3_000));
    let shown = [formulas.matches("<math").count(), formulas.matches("<code>$a$</code>").count()];
    assert_eq!(shown, [2_000, 1_000], "a text of nothing but formulas takes no longer");
}

#[test]
fn what_is_hidden_is_marked_as_such() {
    check(&[
        ("It is ||the *butler*||.", "<p>It is <span class=\"spoiler\">the <em>butler</em></span>.</p>"),
        ("a || b", "<p>a || b</p>"),
        ("`||a||`", "<p><code>||a||</code></p>"),
        ("||<b>||", "<p><span class=\"spoiler\">&lt;b&gt;</span></p>"),
        (
            "||[x](javascript:alert(1)) https://a.example||",
            &format!("<p><span class=\"spoiler\">x {}</span></p>", link("https://a.example", "https://a.example")),
        ),
    ]);
}

#[test]
fn texts_that_are_no_markdown_are_shown_as_they_are_meant() {
    check(&[
        ("2*3*4 = 24 and 5*6*7 = 210", "<p>2*3*4 = 24 and 5*6*7 = 210</p>"),
        ("src/*.py, lib/*.rs", "<p>src/*.py, lib/*.rs</p>"),
        ("/shared/__pycache__/b.pyc, see __init__.py", "<p>/shared/__pycache__/b.pyc, see __init__.py</p>"),
        ("이것은 **\"중요\"**합니다.", "<p>이것은 <strong>&quot;중요&quot;</strong>합니다.</p>"),
        ("about ~20~ of them", "<p>about ~20~ of them</p>"),
        (">>> a\nb\n\nc", "<blockquote><p>a\nb</p><p>c</p></blockquote>"),
        ("1. a\n- x\n2. b", "<ol><li>a<ul><li>x</li></ul></li><li>b</li></ol>"),
        ("````md\n```\na\n```\n````", "<pre><code class=\"language-md\">```\na\n```\n</code></pre>"),
    ]);
}

/// The cells beyond the headings are shown, too, and every row is as long as the longest.
#[test]
fn no_cell_of_a_table_is_lost() {
    check(&[(
        "| a | b |\n|---|---|\n| 1 |\n| 2 | 3 | 4 |",
        "<div class=\"table\"><table><thead><tr><th>a</th><th>b</th><th></th></tr></thead>\
         <tr><td>1</td><td></td><td></td></tr><tr><td>2</td><td>3</td><td>4</td></tr></table></div>",
    )]);
}

#[test]
fn footnotes_stand_at_the_end_by_number() {
    check(&[
        (
            "a[^x] b[^long] c[^x]\n\n[^long]: Two.\n[^x]: One *note*.\n\nEnd",
            "<p>a<sup class=\"footnote-ref\">1</sup> b<sup class=\"footnote-ref\">2</sup> c<sup class=\"footnote-ref\">1</sup></p>\n\
             <p>End</p>\n<ol class=\"footnotes\"><li><p>One <em>note</em>.</p></li><li><p>Two.</p></li></ol>",
        ),
        ("a[^missing]", "<p>a[^missing]</p>"),
    ]);
}

/// The library that reads formulas is fed with what a model may write when it goes astray.
#[test]
fn random_formulas_render_or_keep_their_source() {
    const TOKENS: [&str; 40] = [
        "\\frac",
        "\\sqrt",
        "[",
        "]",
        "{",
        "}",
        "^",
        "_",
        "&",
        "\\\\",
        "\\left",
        "\\right",
        "(",
        ")",
        ".",
        "|",
        "\\begin{matrix}",
        "\\end{matrix}",
        "\\begin{aligned}",
        "\\end{aligned}",
        "\\begin{array}{c|c}",
        "\\end{array}",
        "\\text{é<}",
        "\\hat",
        "\\overbrace",
        "\\sum",
        "\\limits",
        "\\color{red}",
        "'",
        "x",
        "1",
        " ",
        "\\not",
        "\\middle",
        "\\hspace{3em}",
        "\\operatorname{f}",
        "\\mathbb R",
        "%",
        "#1",
        "\\hline",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..20_000 {
        let mut tex = String::from("x");
        for _ in 0..12 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let index = usize::try_from(state % TOKENS.len() as u64).expect("there are few tokens");
            tex.push_str(TOKENS[index]);
        }
        let html = to_html(&format!("$${tex}x$$"));
        assert_eq!(html.matches("<math").count(), html.matches("</math>").count(), "{tex}: {html}");
    }
}

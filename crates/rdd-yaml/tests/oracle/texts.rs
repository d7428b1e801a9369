//! Generated YAML: pieces in any order, documents that mean something, and those with a slip.

use rdd_testkit::random::SeededRandom;

const PIECES: &[&str] = &[
    "a",
    "b",
    "key",
    "1",
    "yes",
    "~",
    "x y",
    ":",
    ": ",
    ":\n",
    "- ",
    "-",
    "-\n",
    "? ",
    "?",
    ",",
    ", ",
    "[",
    "]",
    "{",
    "}",
    "[]",
    "{}",
    "\n",
    "\n\n",
    "\n  ",
    "\n    ",
    " ",
    "  ",
    "\t",
    "#",
    " # c",
    "&a ",
    "*a",
    "&b",
    "*b ",
    "!",
    "!!str ",
    "!!int ",
    "!x ",
    "!<y> ",
    "|",
    "|\n  ",
    ">-\n ",
    "|+\n",
    "|2\n  ",
    ">",
    "'",
    "''",
    "\"",
    "\\",
    "\\n",
    "\\/",
    "\\u0041",
    "\\ud83d",
    "\\x4",
    "<<: ",
    "<<: *a\n",
    "---",
    "--- ",
    "\n---\n",
    "...",
    "\n...\n",
    "%YAML 1.1\n---\n",
    "%TAG ! x\n---\n",
    "\u{85}",
    "\u{2028}",
    "\u{a0}",
    "\u{feff}",
    "é",
    "😀",
    "\r",
    "\r\n",
    "@",
    "`",
    "%",
    "0x1F",
    "1_0",
    "1.5e3",
    "2001-01-01",
    ".nan",
    "null",
    "=",
];

fn pick_text<'a>(random: &mut SeededRandom, texts: &'a [&'a str]) -> &'a str {
    random.pick::<&str>(texts)
}

/// Pieces one after the other.
pub(crate) fn soup(random: &mut SeededRandom) -> String {
    (0..=random.below(14)).map(|_| pick_text(random, PIECES)).collect()
}

/// A document as somebody could write it.
pub(crate) fn document(random: &mut SeededRandom) -> String {
    let mut text = String::new();
    if random.chance(15) {
        text.push_str(pick_text(random, &["--- ", "---\n", "%YAML 1.1\n---\n", "# head\n", "\u{feff}", "\n\n"]));
    }
    block(random, &mut text, 0, 3);
    if random.chance(25) {
        text.truncate(text.trim_end_matches('\n').len());
    }
    if random.chance(15) {
        text.push_str(pick_text(random, &["...\n", "---\nnext: 1\n", "# tail", "--- {", "\u{85}", "  "]));
    }
    text
}

/// A document that was changed at a few places.
pub(crate) fn spoiled(random: &mut SeededRandom) -> String {
    let mut characters: Vec<char> = document(random).chars().collect();
    for _ in 0..=random.below(3) {
        let at = random.below(characters.len() + 1);
        match random.below(4) {
            0 if at < characters.len() => {
                characters.remove(at);
            }
            1 if at < characters.len() => characters.truncate(at),
            _ => {
                let piece = pick_text(random, PIECES);
                characters.splice(at..at, piece.chars());
            }
        }
    }
    characters.into_iter().collect()
}

fn block(random: &mut SeededRandom, text: &mut String, indent: usize, depth: usize) {
    let is_list = random.chance(30);
    for _ in 0..=random.below(4) {
        text.push_str(&" ".repeat(indent));
        if is_list {
            text.push('-');
        } else {
            text.push_str(&key(random));
            text.push(':');
        }
        if depth > 0 && random.chance(30) {
            if random.chance(10) {
                text.push_str(pick_text(random, &[" &a", " !!map", " # c", " &b !x"]));
            }
            text.push('\n');
            let deeper = if is_list || random.chance(80) { 1 + random.below(4) } else { 0 };
            block(random, text, indent + deeper, depth - 1);
        } else {
            text.push(' ');
            value(random, text, indent);
            if random.chance(8) {
                text.push_str(" # c");
            }
            text.push('\n');
        }
    }
}

fn key(random: &mut SeededRandom) -> String {
    let keys = [
        "a",
        "b",
        "c",
        "1",
        "true",
        "1.5",
        "\"q\\tx\"",
        "'it''s'",
        "a b",
        "<<",
        "*a ",
        "&a k",
        "? x",
        "!!str 2",
        "x:y",
        "é",
    ];
    pick_text(random, &keys).to_owned()
}

fn value(random: &mut SeededRandom, text: &mut String, indent: usize) {
    let pad = " ".repeat((indent + random.below(4)).saturating_sub(1));
    let lines: Vec<&str> = (0..=random.below(3))
        .map(|_| pick_text(random, &["x", "y z", " in", "", "# no", "- i", "k: v", "\tt"]))
        .collect();
    match random.below(9) {
        0 => text.push_str(pick_text(
            random,
            &[
                "1",
                "-0",
                "0x1f",
                "010",
                "1e3",
                ".5",
                "yes",
                "Off",
                "~",
                "null",
                "2001-01-01",
                ".inf",
                "1_000",
                "=",
                "<<",
            ],
        )),
        1 => text.push_str(&lines.join(&format!("\n{pad}"))),
        2 => text.push_str(&format!("\"{}\"", lines.join(&format!("\n{pad}")))),
        3 => text.push_str(&format!("'{}'", lines.join(&format!("\n{pad}")))),
        4 => {
            let header = pick_text(random, &["|", ">", "|-", ">+", "|+", ">-", "|1", "|2-", ">1+", "| # c", "|0"]);
            let deeper = " ".repeat(indent + random.below(3));
            text.push_str(&format!("{header}\n{deeper}{}", lines.join(&format!("\n{deeper}"))));
        }
        5 => flow(random, text, 3),
        6 => text.push_str(pick_text(
            random,
            &[
                "*a",
                "*b",
                "&a x",
                "&b [1, *a]",
                "&a {k: v}",
                "!!int \"5\"",
                "!!float 3",
                "!!binary aGk=",
                "!!str",
                "! 5",
                "!!set {a}",
                "!<tag:yaml.org,2002:int> 7",
            ],
        )),
        7 => text.push_str(pick_text(
            random,
            &[
                "\"a\\\n  b\"",
                "\"\\u263a\\U0001F600\"",
                "\"\\x41\\e\\_\\N\\L\"",
                "\"\\ud83d\\ude00\"",
                "\"\\/\"",
                "\"\\'\"",
                "'\u{85}x'",
                "a\u{85}b",
                "a\u{2028} b",
                "\"a \u{2029}\n b\"",
            ],
        )),
        _ => {}
    }
}

fn flow(random: &mut SeededRandom, text: &mut String, depth: usize) {
    let is_list = random.chance(50);
    text.push(if is_list { '[' } else { '{' });
    for at in 0..random.below(4) {
        if at > 0 {
            text.push_str(pick_text(random, &[", ", ",", " ,\n ", ",\t"]));
        }
        if !is_list || random.chance(15) {
            text.push_str(pick_text(random, &["a: ", "\"b\":", "c :", "d", "? e : ", "1: ", ": ", "f:g", "[h]: "]));
        }
        if depth > 0 && random.chance(30) {
            flow(random, text, depth - 1);
        } else {
            text.push_str(pick_text(
                random,
                &["1", "x y", "'q'", "\"r\\n\"", "", "*a", "&a s", "!!str 1", "-", "x\n y", "#", "~"],
            ));
        }
    }
    if random.chance(95) {
        text.push(if is_list { ']' } else { '}' });
    }
}

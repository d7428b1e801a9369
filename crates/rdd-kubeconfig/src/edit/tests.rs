//! Texts before and after changes.

use super::*;

const NAME: &str = "rancher-desktop-2";

fn cluster(server: &str) -> Change {
    let fields = vec![("certificate-authority-data", "Q0E=".to_owned()), ("server", server.to_owned())];
    Change::Put { list: List::Clusters, name: NAME.to_owned(), fields, others: Others::KeepOnly(&["extensions"]) }
}

fn context() -> Change {
    let fields = vec![("cluster", NAME.to_owned()), ("user", NAME.to_owned())];
    Change::Put { list: List::Contexts, name: NAME.to_owned(), fields, others: Others::Keep }
}

fn remove(list: List) -> Change {
    Change::Remove { list, name: NAME.to_owned() }
}

#[track_caller]
fn check(before: &str, change: &Change, after: &str) {
    match edit(before, change) {
        Ok(text) => assert_eq!(text, after, "\n--- got\n{text}--- wanted\n{after}"),
        Err(refused) => panic!("refused: {refused}\n{before}"),
    }
    assert_eq!(edit(after, change).as_deref(), Ok(after), "made once, it is made");
}

/// Publishing and then withdrawing leaves the text as it was.
#[track_caller]
fn there_and_back(before: &str, after: &str) {
    check(before, &cluster("https://127.0.0.1:7443"), after);
    check(after, &remove(List::Clusters), before);
}

#[track_caller]
fn refused(text: &str, change: &Change, line: usize, why: &str) {
    let refused = edit(text, change).expect_err(text);
    assert_eq!((refused.line, refused.why.as_str()), (line, why), "{text}");
}

const OTHER: &str = "\
# my clusters
apiVersion: v1
clusters:
- cluster: {server: 'https://work:6443'}   # do not touch
  name: work
# between
contexts: []
kind: Config
";

#[test]
fn an_entry_is_put_behind_the_last_and_goes_without_a_trace() {
    let after = OTHER.replace(
        "  name: work\n",
        "  name: work\n- cluster:\n    certificate-authority-data: Q0E=\n    server: https://127.0.0.1:7443\n  \
         name: rancher-desktop-2\n",
    );
    there_and_back(OTHER, &after);
    there_and_back(&OTHER.replace('\n', "\r\n"), &after.replace('\n', "\r\n"));
    there_and_back(&format!("\u{feff}{OTHER}"), &format!("\u{feff}{after}"));
    there_and_back(&format!("---\n{OTHER}...\n"), &format!("---\n{after}...\n"));
    there_and_back(&format!("%YAML 1.1\n--- # mine\n{OTHER}"), &format!("%YAML 1.1\n--- # mine\n{after}"));
}

#[test]
fn a_missing_last_line_end_stays_missing() {
    let entry = "\n- cluster:\n    certificate-authority-data: Q0E=\n    server: https://127.0.0.1:7443\n  \
                 name: rancher-desktop-2";
    there_and_back("clusters:\n- name: a", &format!("clusters:\n- name: a{entry}"));
    there_and_back("clusters: []", &format!("clusters:{entry}"));
    there_and_back("clusters:\n- name: a # x", &format!("clusters:\n- name: a # x{entry}"));
    there_and_back("clusters: [] # none yet", &format!("clusters: # none yet{entry}"));
}

#[test]
fn the_indentation_of_the_file_is_followed() {
    let entry = |pad: &str| {
        format!(
            "{pad}- cluster:\n{pad}    certificate-authority-data: Q0E=\n{pad}    server: https://127.0.0.1:7443\n{pad}  \
             name: rancher-desktop-2\n"
        )
    };
    let (four, two) = (entry("    "), entry("  "));
    there_and_back(
        "clusters:\n    -   name: a\n        cluster:\n              server: x\nkind: Config\n",
        &format!("clusters:\n    -   name: a\n        cluster:\n              server: x\n{four}kind: Config\n"),
    );
    there_and_back("clusters: []\ncontexts:\n  - name: x\n", &format!("clusters:\n{two}contexts:\n  - name: x\n"));
    there_and_back("  kind: Config\n  clusters: []\n", &format!("  kind: Config\n  clusters:\n{two}"));
}

#[test]
fn an_item_may_be_empty_or_end_in_a_block() {
    let entry = "- cluster:\n    certificate-authority-data: Q0E=\n    server: https://127.0.0.1:7443\n  \
                 name: rancher-desktop-2\n";
    there_and_back("clusters:\n-\nusers: []\n", &format!("clusters:\n-\n{entry}users: []\n"));
    there_and_back(
        "clusters:\n- name: a\n  note: |+\n    text\n\n\nusers: []\n",
        &format!("clusters:\n- name: a\n  note: |+\n    text\n\n\n{entry}users: []\n"),
    );
    there_and_back(
        "clusters:\n- note: >-\n    text\n  name: a # b\n",
        &format!("clusters:\n- note: >-\n    text\n  name: a # b\n{entry}"),
    );
}

#[test]
fn flow_style_and_json_stay_what_they_are() {
    const ENTRY: &str = "{\"cluster\": {\"certificate-authority-data\": \"Q0E=\", \"server\": \
                         \"https://127.0.0.1:7443\"}, \"name\": \"rancher-desktop-2\"}";
    for (before, after) in [
        ("{\"clusters\":[]}", "{\"clusters\":[@]}"),
        ("{\"clusters\":[{\"name\":\"a\"}]}\n", "{\"clusters\":[{\"name\":\"a\"}, @]}\n"),
        (
            "{\n\t\"clusters\": [\n\t\t{\"name\": \"a\"}\n\t],\n\t\"kind\": \"Config\"\n}\n",
            "{\n\t\"clusters\": [\n\t\t{\"name\": \"a\"},\n\t\t@\n\t],\n\t\"kind\": \"Config\"\n}\n",
        ),
        ("clusters: [{name: a}, {name: b},] # c\n", "clusters: [{name: a}, {name: b}, @,] # c\n"),
        (
            "clusters: [\n  {name: a}, # one\n  {name: b} # two\n]\n",
            "clusters: [\n  {name: a}, # one\n  {name: b}, @ # two\n]\n",
        ),
        ("clusters: [ # none\n]\n", "clusters: [@ # none\n]\n"),
    ] {
        there_and_back(before, &after.replace('@', ENTRY));
    }
}

#[test]
fn a_file_with_nothing_in_it_becomes_one_as_kubectl_writes_it() {
    let whole = "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: Q0E=\n    server: https://h:1\n  \
                 name: rancher-desktop-2\ncontexts: []\ncurrent-context: \"\"\nkind: Config\npreferences: {}\nusers: []";
    check("", &cluster("https://h:1"), &format!("{whole}\n"));
    check("# mine\n", &cluster("https://h:1"), &format!("# mine\n{whole}\n"));
    check("# mine", &cluster("https://h:1"), &format!("# mine\n{whole}"));
    check("---\n", &cluster("https://h:1"), &format!("---\n{whole}\n"));
    check("--- # x\n...\n", &cluster("https://h:1"), &format!("--- # x\n{whole}\n...\n"));
    check("null\n", &cluster("https://h:1"), &format!("{whole}\n"));
    for nothing in ["", "# mine\n", "---\n", "null\n", "{}", "clusters:\n"] {
        check(nothing, &remove(List::Clusters), nothing);
        check(nothing, &Change::SetCurrent(String::new()), nothing);
    }
}

#[test]
fn lists_that_are_null_or_missing_are_made() {
    let entry = "- context:\n    cluster: rancher-desktop-2\n    user: rancher-desktop-2\n  name: rancher-desktop-2\n";
    check("contexts: null\nkind: Config\n", &context(), &format!("contexts:\n{entry}kind: Config\n"));
    check("contexts: ~ # x\nkind: Config\n", &context(), &format!("contexts: # x\n{entry}kind: Config\n"));
    check("contexts:\nkind: Config\n", &context(), &format!("contexts:\n{entry}kind: Config\n"));
    check("kind: Config\n# end\n", &context(), &format!("kind: Config\ncontexts:\n{entry}# end\n"));
    check(
        "{}",
        &context(),
        &format!(
            "{{\"contexts\": [{}]}}",
            "{\"context\": {\"cluster\": \"rancher-desktop-2\", \"user\": \"rancher-desktop-2\"}, \"name\": \"rancher-desktop-2\"}"
        ),
    );
}

#[test]
fn only_the_field_that_differs_is_touched() {
    let before = "clusters:\n- name: rancher-desktop-2   # ours\n  cluster:\n    # where\n    server: \"https://127.0.0.1:1\"  # port\n    \
                  certificate-authority-data: 'Q0E='\n    extensions: [{name: x}]\n";
    check(before, &cluster("https://127.0.0.1:2"), &before.replace("\"https://127.0.0.1:1\"", "https://127.0.0.1:2"));
    let stale = before.replace("    extensions", "    insecure-skip-tls-verify: true # no\n    extensions");
    check(&stale, &cluster("https://127.0.0.1:1"), before);
    let block = before.replace("'Q0E='", "|\n      UExE\n\n");
    let whole = before.replace("'Q0E='", "Q0E=");
    check(&block, &cluster("https://127.0.0.1:1"), &whole);
    let flow = "clusters: [{name: rancher-desktop-2, cluster: {server: x, tls-server-name: y, extensions: []}}]";
    check(
        flow,
        &cluster("https://h"),
        "clusters: [{name: rancher-desktop-2, cluster: {server: \"https://h\", extensions: [], \
         \"certificate-authority-data\": \"Q0E=\"}}]",
    );
}

#[test]
fn what_the_user_added_to_our_context_stays() {
    let before = "contexts:\n- context:\n    cluster: rancher-desktop-2\n    namespace: mine # rd#3627\n    user: other\n  name: rancher-desktop-2\n";
    check(before, &context(), &before.replace("user: other", "user: rancher-desktop-2"));
}

#[test]
fn a_number_that_looks_like_our_text_is_replaced_by_the_text() {
    let put = |text: &str| Change::Put {
        list: List::Users,
        name: NAME.to_owned(),
        fields: vec![("token", text.to_owned())],
        others: Others::Keep,
    };
    check(
        "users:\n- {name: rancher-desktop-2, user: {token: 123}}\n",
        &put("123"),
        "users:\n- {name: rancher-desktop-2, user: {token: \"123\"}}\n",
    );
    for odd in [
        "yes",
        "0x1f",
        "a: b",
        "- x",
        "#",
        "'",
        "\"",
        "\\",
        "é\u{1f600}",
        "1e3",
        "",
        " ",
        "~",
        "<<",
        "a\nb",
        "\u{7f}\u{85}",
    ] {
        let text = edit("users: []\n", &put(odd)).unwrap();
        assert_eq!(value_of(&text).unwrap()["users"][0]["user"]["token"], odd);
    }
}

#[test]
fn of_several_entries_with_our_name_one_remains() {
    let before = "contexts:\n- name: rancher-desktop-2\n- name: a\n- {name: rancher-desktop-2}\n- name: a\n";
    check(
        before,
        &context(),
        "contexts:\n- name: rancher-desktop-2\n  context:\n    cluster: rancher-desktop-2\n    user: \
         rancher-desktop-2\n- name: a\n- name: a\n",
    );
    check(before, &remove(List::Contexts), "contexts:\n- name: a\n- name: a\n");
}

#[test]
fn the_current_context_is_set_and_cleared_in_place() {
    let set = Change::SetCurrent(NAME.to_owned());
    check("current-context: a # b\n", &set, "current-context: rancher-desktop-2 # b\n");
    check("current-context: \"\"\r\nx: y\r\n", &set, "current-context: rancher-desktop-2\r\nx: y\r\n");
    check("current-context:\nx: y\n", &set, "current-context: rancher-desktop-2\nx: y\n");
    check("x: y", &set, "x: y\ncurrent-context: rancher-desktop-2");
    check("{\"current-context\":\"a\"}", &set, "{\"current-context\":\"rancher-desktop-2\"}");
    check("current-context: a # b\n", &Change::SetCurrent(String::new()), "current-context: \"\" # b\n");
}

#[test]
fn anchors_that_are_not_ours_stay_and_go_on_to_work() {
    let before = "x-common: &common\n  server: https://h\nclusters: &all\n- &one\n  name: a\n  cluster: *common\n- name: b\n  cluster: {<<: *common}\n- *one\n";
    let after = format!(
        "{before}- cluster:\n    certificate-authority-data: Q0E=\n    server: https://127.0.0.1:7443\n  name: rancher-desktop-2\n"
    );
    there_and_back(before, &after);
    let ours_refers = "clusters:\n- name: a\n  cluster: &c {server: x}\n- name: rancher-desktop-2\n  cluster: *c\n";
    check(ours_refers, &remove(List::Clusters), "clusters:\n- name: a\n  cluster: &c {server: x}\n");
    check("clusters: &c # x\n- name: rancher-desktop-2\n", &remove(List::Clusters), "clusters: &c [] # x\n");
}

#[test]
fn what_is_not_certain_is_refused_with_its_line() {
    let put = cluster("https://h");
    let needed = "an anchor here is referred to from elsewhere";
    refused(
        "clusters:\n- name: rancher-desktop-2\n  cluster: &c {server: x}\nother: *c\n",
        &remove(List::Clusters),
        3,
        needed,
    );
    refused("a: 1\nclusters:\n- name: rancher-desktop-2\n  cluster:\n    server: &s x\nother: *s\n", &put, 5, needed);
    refused("a: 1\n---\nb: 1\n", &put, 2, "a second document begins");
    refused("clusters: []\nclusters: []\n", &put, 2, "the key \"clusters\" is there twice");
    refused("a: &a []\nclusters: *a\n", &put, 2, "it should be a list that is written out here");
    refused("a: &a {clusters: []}\n<<: *a\n", &put, 2, "its keys are merged from elsewhere");
    refused(
        "a: &a {name: rancher-desktop-2}\nclusters:\n- *a\n",
        &put,
        3,
        "it should be a mapping that is written out here",
    );
    refused("clusters: text\n", &put, 1, "it should be a list that is written out here");
    refused("- a\n- b\n", &put, 1, "it should be a mapping that is written out here");
    refused("just words\n", &put, 1, "it should be a mapping that is written out here");
    refused("a: 1\rb: 2\r", &put, 1, "a carriage return stands alone");
    refused(
        "a: &x [1]\nclusters: &l []\nb: *l\n",
        &put,
        1,
        "it cannot be changed without changing more than was asked for",
    );
    assert_eq!(edit("a: 1\n  b: [\n", &put).unwrap_err().line, 2);
    assert!(edit("a: \"unclosed\nb: 1\n", &put).is_err());
    assert!(edit("\u{0}\u{1}", &put).is_err());
}

#[test]
fn no_refusal_quotes_a_value() {
    for text in
        ["token: hunter2\n bad: [hunter2", "token: !!int hunter2\nclusters: []\n", "hunter2: &hunter\n\t- x: 'hunter2"]
    {
        let refused = edit(text, &cluster("https://h")).unwrap_err();
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
    }
}

//! Tests of service account tokens, from the TokenRequest to the identity.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use rdd_stdx::clock::ManualClock;
use serde_json::{Value, json};

use super::*;
use crate::registry::Question;

struct Setting {
    accounts: ServiceAccounts,
    clock: Arc<ManualClock>,
    _folder: tempfile::TempDir,
}

/// A service account `a` with uid `1` and a Secret `s` with uid `2`, in the namespace `n`.
fn setting() -> Setting {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::shared(Duration::from_secs(1_700_000_000));
    let lookup: Box<Lookup> = Box::new(|plural, namespace, name| {
        let uid = match (plural, namespace, name) {
            ("serviceaccounts", "n", "a") => "1",
            ("secrets", "n", "s") => "2",
            _ => return None,
        };
        Some(Known { uid: uid.to_owned(), deleted: None })
    });
    let key = SigningKey::ensure(folder.path()).unwrap();
    let accounts = ServiceAccounts::new(key, clock.clone());
    accounts.look_up_by(lookup);
    Setting { accounts, clock, _folder: folder }
}

fn ask(accounts: &ServiceAccounts, question: Value) -> Result<Value, String> {
    let account = json!({"metadata": {"name": "a", "namespace": "n", "uid": "1"}});
    accounts.answer(question, &account, &Identity::admin()).map_err(|status| status.message)
}

fn token(answer: &Value) -> &str {
    answer["status"]["token"].as_str().unwrap()
}

#[test]
fn a_token_stands_for_its_account_until_it_expires() {
    let Setting { accounts, clock, _folder } = setting();
    let answer = ask(&accounts, json!({"spec": {"expirationSeconds": 600}})).unwrap();
    assert_eq!(answer["status"]["expirationTimestamp"], "2023-11-14T22:23:20Z");
    assert_eq!(answer["spec"], json!({"audiences": [ISSUER], "expirationSeconds": 600, "boundObjectRef": null}));
    let who = accounts.review(token(&answer), &[]).unwrap().identity;
    assert_eq!((who.name(), who.uid()), ("system:serviceaccount:n:a", "1"));
    assert_eq!(who.groups(), ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"]);
    clock.advance(Duration::from_secs(659));
    assert!(accounts.review(token(&answer), &[]).is_some(), "clocks may differ by a minute");
    clock.advance(Duration::from_secs(2));
    assert!(accounts.review(token(&answer), &[]).is_none());
}

#[test]
fn a_token_for_others_is_none_for_us() {
    let Setting { accounts, clock: _, _folder } = setting();
    let answer = ask(&accounts, json!({"spec": {"audiences": ["vault"]}})).unwrap();
    assert!(accounts.review(token(&answer), &[]).is_none());
    let audiences = ["vault".to_owned(), "other".to_owned()];
    assert_eq!(accounts.review(token(&answer), &audiences).unwrap().audiences, ["vault"]);
}

#[test]
fn a_token_that_was_tampered_with_or_signed_by_another_is_nothing() {
    let (mine, other) = (setting(), setting());
    let answer = ask(&mine.accounts, json!({})).unwrap();
    let token = token(&answer);
    assert!(mine.accounts.review(token, &[]).is_some());
    assert!(other.accounts.review(token, &[]).is_none());
    let parts: Vec<&str> = token.split('.').collect();
    let forged = ["{\"alg\":\"none\"}", "{\"alg\":\"ES256\",\"kid\":\"x\"}"].map(|header| {
        use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
        format!("{}.{}.{}", BASE64_URL_SAFE_NO_PAD.encode(header), parts[1], parts[2])
    });
    let broken = [String::new(), "..".to_owned(), format!("{}.{}.", parts[0], parts[1]), format!("{token}x")];
    for text in forged.iter().chain(&broken).chain([&"a".repeat(1 << 20)]) {
        assert!(mine.accounts.review(text, &[]).is_none());
    }
}

#[test]
fn a_bound_token_dies_with_its_secret() {
    let Setting { mut accounts, clock: _, _folder } = setting();
    let bound = |name: &str, kind: &str, uid: &str| json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}}});
    let answer = ask(&accounts, bound("s", "Secret", "2")).unwrap();
    assert!(accounts.review(token(&answer), &[]).is_some());
    assert_eq!(ask(&accounts, bound("t", "Secret", "")).unwrap_err(), "secrets \"t\" not found");
    let odd = ask(&accounts, bound("s", "Foo", "")).unwrap_err();
    assert_eq!(odd, "cannot bind token to object of type /v1, Kind=Foo");
    assert!(ask(&accounts, bound("s", "Secret", "3")).unwrap_err().contains("does not match the UID in record"));
    accounts.lookup = OnceLock::new();
    let only_account =
        |plural: &str| (plural == "serviceaccounts").then(|| Known { uid: "1".to_owned(), deleted: None });
    accounts.look_up_by(Box::new(move |plural, _, _| only_account(plural)));
    assert!(accounts.review(token(&answer), &[]).is_none());
}

#[test]
fn a_question_that_does_not_fit_is_refused_in_upstreams_words() {
    let Setting { accounts, clock: _, _folder } = setting();
    for (question, message) in [
        (
            json!({"spec": {"expirationSeconds": 10}}),
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 10: may not specify a \
             duration less than 10 minutes",
        ),
        (
            json!({"metadata": {"name": "x"}}),
            "TokenRequest.authentication.k8s.io \"a\" is invalid: metadata.name: Invalid value: \"x\": must match the service \
             account name if specified",
        ),
    ] {
        assert_eq!(ask(&accounts, question).unwrap_err(), message);
    }
}

#[test]
fn the_key_is_made_once_and_kept_for_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let first = SigningKey::ensure(folder.path()).unwrap();
    let second = SigningKey::ensure(folder.path()).unwrap();
    let signed = first.sign(&json!({"a": 1})).unwrap();
    assert_eq!(second.verify(&signed), Some(json!({"a": 1})));
    let path = folder.path().join(FILE);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(&path, "no key").unwrap();
    let third = SigningKey::ensure(folder.path()).unwrap();
    assert_eq!(third.verify(&signed), None);
    assert_eq!(third.json_web_key()["crv"], "P-256");
}

#[test]
fn a_review_knows_the_tokens_of_the_instance_too() {
    let secret = crate::auth::Token::random();
    let accounts = Arc::new(setting().accounts);
    let reviewer = accounts.reviewer(crate::auth::Tokens::new([(secret.clone(), Identity::user())]));
    let who = |token: &str, audiences: &[String]| {
        reviewer.review(token, audiences).map(|reviewed| (reviewed.identity.name().to_owned(), reviewed.audiences))
    };
    assert_eq!(who(secret.reveal(), &[]), Some(("user".to_owned(), vec![ISSUER.to_owned()])));
    assert_eq!(who(secret.reveal(), &["vault".to_owned()]), None);
    let answer = ask(&accounts, json!({})).unwrap();
    assert_eq!(who(token(&answer), &[]).unwrap().0, "system:serviceaccount:n:a");
    assert_eq!(who("", &[]), None);
}

//! The CA bundle of a webhook: valid if its PEM has a certificate that Go parses.

mod certificate;
mod der;
mod pem;

use base64::{
    Engine as _, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::Value;

/// Base64 as Go's standard encoding, which ignores excess bits in the last character.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Validates a bundle, as upstream's `transport.TLSConfigFor`. An empty bundle is valid.
///
/// # Errors
/// The text of upstream, when no certificate of the bundle can be used.
pub fn check_ca_bundle(bundle: &[u8]) -> Result<(), String> {
    if bundle.is_empty() || pem::certificates(bundle).any(|der| certificate::check(&der).is_ok()) {
        return Ok(());
    }
    Err(format!("unable to load root certificates: {}", explain(bundle)))
}

/// The error of a bundle without a valid certificate: that of its first block that cannot be parsed.
fn explain(bundle: &[u8]) -> String {
    let mut rest = bundle;
    while !rest.is_empty() {
        let Some((block, after)) = pem::decode(rest) else { return "unable to parse bytes as PEM block".to_owned() };
        rest = after;
        if let Some(der) = block.into_certificate()
            && let Err(why) = certificate::check(&der)
        {
            return format!("failed to parse certificate: {why}");
        }
    }
    "no valid certificate authority data seen".to_owned()
}

/// Whether a CRD has a conversion webhook whose CA bundle is invalid, so that no connection to it can be made.
pub fn has_invalid_ca_bundle(definition: &Value) -> bool {
    let bundle = definition.pointer("/spec/conversion/webhook/clientConfig/caBundle").and_then(Value::as_str);
    bundle.is_some_and(|bundle| check_ca_bundle(&decode_base64(bundle)).is_err())
}

/// Decodes a base64 field, ignoring line ends as Go does. Invalid base64 gives no bytes: the decoding of the CRD refuses it.
pub(crate) fn decode_base64(text: &str) -> Vec<u8> {
    let plain: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    BASE64.decode(plain).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    use super::*;

    /// An authority of our own, with an elliptic curve key.
    const AUTHORITY: &str = include_str!("testdata/authority.pem");

    fn problem(bundle: &str) -> String {
        check_ca_bundle(bundle.as_bytes()).err().unwrap_or_default()
    }

    // Finding E-16
    #[test]
    fn one_valid_certificate_is_enough_and_what_is_wrong_with_none_is_said_in_gos_words() {
        const PREFIX: &str = "unable to load root certificates: ";
        let broken =
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode("nonsense"));
        let key = AUTHORITY.replace("CERTIFICATE", "PRIVATE KEY");
        let with_header = AUTHORITY.replace("CERTIFICATE-----\nMII", "CERTIFICATE-----\nA: b\n\nMII");
        let mut trailing =
            STANDARD.decode(AUTHORITY.lines().filter(|line| !line.starts_with('-')).collect::<String>()).unwrap();
        trailing.push(0);
        let trailing =
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(trailing));
        assert_eq!(problem(""), "");
        assert_eq!(problem(AUTHORITY), "");
        assert_eq!(problem(&format!("words\n{broken}{AUTHORITY}")), "");
        assert_eq!(problem("  "), format!("{PREFIX}unable to parse bytes as PEM block"));
        assert_eq!(problem("bad"), format!("{PREFIX}unable to parse bytes as PEM block"));
        assert_eq!(problem(&broken), format!("{PREFIX}failed to parse certificate: x509: malformed certificate"));
        assert_eq!(problem(&trailing), format!("{PREFIX}failed to parse certificate: x509: trailing data"));
        assert_eq!(problem(&key), format!("{PREFIX}no valid certificate authority data seen"));
        assert_eq!(problem(&with_header), format!("{PREFIX}no valid certificate authority data seen"));
    }

    #[test]
    fn no_prefix_of_a_bundle_panics() {
        for length in 0..AUTHORITY.len() - 1 {
            assert!(check_ca_bundle(&AUTHORITY.as_bytes()[..length]).is_err() || length == 0);
        }
    }
}

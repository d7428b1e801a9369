//! The signing key of service account tokens: creating it, keeping it on disk, signing, and verifying.

use std::{io, path::Path};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use rdd_stdx::{
    chain::Chain,
    file::{self, PRIVATE},
    owned,
};
use ring::{
    digest,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
    },
};
use serde_json::{Value, json};

/// The name of the key's file in the tls folder.
pub const FILE: &str = "sa.key";
/// The maximum length of a token. Longer ones are rejected before they are decoded.
const TOKEN_BYTES_MAX: usize = 16 << 10;
const ALGORITHM: &str = "ES256";

/// The reason that no key is available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file exists, but the operating system does not let us read it.
    #[error("read the key of service accounts")]
    Read(#[source] io::Error),
    /// The file could not be written.
    #[error("keep the key of service accounts")]
    Write(#[source] file::Error),
    /// No key could be generated, or the PEM text has none.
    #[error("make a key for service accounts")]
    Make(#[source] rcgen::Error),
    /// The file has a key that cannot sign tokens. ring's error does not implement the standard trait, so it is in the message.
    #[error("use the key of service accounts: {0}")]
    Use(ring::error::KeyRejected),
}

/// An ECDSA P-256 key and its key ID.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    id: String,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Loads the key from `folder`, or creates it if there is none. A file without a usable key is replaced, with a warning in
    /// the log: the tokens that the old key signed become invalid.
    pub fn ensure(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        match owned::read_to_string(&path) {
            Ok(pem) => match Self::parse(&pem) {
                Ok(key) => return Ok(key),
                Err(error) => tracing::warn!(error = %Chain(&error), "the key of service accounts is replaced"),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                tracing::warn!(error = %Chain(&error), "the key of service accounts is replaced");
            }
            Err(error) => return Err(Error::Read(error)),
        }
        let pem = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(Error::Make)?.serialize_pem();
        file::create_dir_private(folder).map_err(Error::Write)?;
        file::write_atomic(&path, pem.as_bytes(), PRIVATE).map_err(Error::Write)?;
        Self::parse(&pem)
    }

    fn parse(pem: &str) -> Result<Self, Error> {
        let key = KeyPair::from_pem(pem).map_err(Error::Make)?;
        let der = key.serialize_der();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new());
        let public = digest::digest(&digest::SHA256, &key.subject_public_key_info());
        Ok(Self { pair: pair.map_err(Error::Use)?, id: BASE64_URL_SAFE_NO_PAD.encode(public) })
    }

    /// Signs a token with these claims. `None` if the system has no random numbers.
    pub(super) fn sign(&self, claims: &Value) -> Option<String> {
        let header = json!({"alg": ALGORITHM, "kid": self.id});
        let encode = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encode(&header), encode(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
        Some(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Verifies the signature of a token and returns its claims. `None` if this key did not sign it.
    pub(super) fn verify(&self, token: &str) -> Option<Value> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).ok();
        let header: Value = serde_json::from_slice(&decode(header)?).ok()?;
        // Accept one algorithm only: the token must not choose how it is verified.
        if header["alg"] != ALGORITHM || header.get("kid").is_some_and(|id| id != &self.id) {
            return None;
        }
        // A token may omit the key ID; the signature decides.
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key());
        public.verify(signed.as_bytes(), &decode(signature)?).ok()?;
        serde_json::from_slice(&decode(claims)?).ok()
    }

    /// The public key, as a member of a JSON Web Key Set.
    pub(super) fn json_web_key(&self) -> Value {
        // An uncompressed point: a format byte, then the two coordinates.
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        let encode = |coordinate: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(coordinate);
        json!({"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": ALGORITHM, "x": encode(x), "y": encode(y)})
    }
}

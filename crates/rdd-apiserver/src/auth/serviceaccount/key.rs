//! The key that tokens are signed with: made once, kept for the owner alone, and what it signs.

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

/// The name of its file in the tls folder.
pub const FILE: &str = "sa.key";
/// No token of ours is longer; what is, is not looked at.
const TOKEN_BYTES_MAX: usize = 16 << 10;
const ALGORITHM: &str = "ES256";

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is there and cannot be read.
    #[error("read the key of service accounts")]
    Read(#[source] io::Error),
    /// The file could not be written.
    #[error("keep the key of service accounts")]
    Write(#[source] file::Error),
    /// No key could be made.
    #[error("make a key for service accounts")]
    Make(#[source] rcgen::Error),
    /// What the file holds is no key that tokens are signed with; ring's error is none of the standard library's.
    #[error("use the key of service accounts: {0}")]
    Use(ring::error::KeyRejected),
}

/// A key on the curve P-256, and its name.
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
    /// The key in `folder`, made if there is none yet. One that cannot be used is replaced, and the log says so: tokens that
    /// it signed are worth nothing then.
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

    /// A token with these claims; none if the system has no random numbers.
    pub(super) fn sign(&self, claims: &Value) -> Option<String> {
        let header = json!({"alg": ALGORITHM, "kid": self.id});
        let encode = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encode(&header), encode(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
        Some(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The claims of a token that this key signed.
    pub(super) fn verify(&self, token: &str) -> Option<Value> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).ok();
        let header: Value = serde_json::from_slice(&decode(header)?).ok()?;
        if header["alg"] != ALGORITHM || header.get("kid").is_some_and(|id| id != &self.id) {
            return None;
        }
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key());
        public.verify(signed.as_bytes(), &decode(signature)?).ok()?;
        serde_json::from_slice(&decode(claims)?).ok()
    }

    /// The public half, as a key of a JSON Web Key Set.
    pub(super) fn json_web_key(&self) -> Value {
        // An uncompressed point: one byte that says so, then both coordinates.
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        let encode = |coordinate: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(coordinate);
        json!({"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": ALGORITHM, "x": encode(x), "y": encode(y)})
    }
}

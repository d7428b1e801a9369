//! Validates a certificate as Go's `x509.ParseCertificate` does, with Go's error texts.
//!
//! Two checks are missing: that a key is a point on its curve, and the syntax of URIs in alternative names.

use std::collections::HashSet;

use super::der::{
    BMP_STRING, BOOLEAN, Der, GENERALIZED_TIME, IA5_STRING, INTEGER, NULL, NUMERIC_STRING, OBJECT_IDENTIFIER,
    OCTET_STRING, PRINTABLE_STRING, SEQUENCE, SET, T61_STRING, UTC_TIME, UTF8_STRING, constructed, context,
};

type Checked<T = ()> = Result<T, String>;

/// The error of a part that cannot be parsed.
fn fail<T>(why: &str) -> Checked<T> {
    Err(format!("x509: {why}"))
}

/// Turns an absent part into an error.
trait Or<T> {
    fn or_fail(self, why: &str) -> Checked<T>;
}

impl<T> Or<T> for Option<T> {
    fn or_fail(self, why: &str) -> Checked<T> {
        self.map_or_else(|| fail(why), Ok)
    }
}

/// Validates a certificate in DER.
///
/// # Errors
/// Go's text for the first part that is invalid.
pub(super) fn check(der: &[u8]) -> Checked {
    let mut rest = Der(der);
    let mut input = rest.read(SEQUENCE).or_fail("malformed certificate")?;
    let mut body = input.read(SEQUENCE).or_fail("malformed tbs certificate")?;
    let version = version(&mut body)?;
    let serial = body.read_integer(INTEGER).or_fail("malformed serial number")?;
    // The high bit is the sign of an integer in DER.
    if serial[0] & 0x80 != 0 {
        return fail("negative serial number");
    }
    let algorithm = body.read(SEQUENCE).or_fail("malformed signature algorithm identifier")?;
    let outer = input.read(SEQUENCE).or_fail("malformed algorithm identifier")?;
    // The signed algorithm must be the one that is used; otherwise an attacker could replace it.
    if outer.0 != algorithm.0 {
        return fail("inner and outer signature algorithm identifiers don't match");
    }
    algorithm_identifier(algorithm)?;
    name(body.read(SEQUENCE).or_fail("malformed issuer")?)?;
    let mut validity = body.read(SEQUENCE).or_fail("malformed validity")?;
    time(&mut validity)?;
    time(&mut validity)?;
    // The subject; Go reports it as the issuer.
    name(body.read(SEQUENCE).or_fail("malformed issuer")?)?;
    public_key(body.read(SEQUENCE).or_fail("malformed spki")?)?;
    if version > 1 {
        body.read_optional(context(1)).or_fail("malformed issuerUniqueID")?;
        body.read_optional(context(2)).or_fail("malformed subjectUniqueID")?;
    }
    if version == 3
        && let Some(list) = body.read_optional(constructed(3)).or_fail("malformed extensions")?
    {
        extensions(list)?;
    }
    input.read_bits().or_fail("malformed signature")?;
    if !rest.is_empty() {
        return fail("trailing data");
    }
    Ok(())
}

fn version(body: &mut Der<'_>) -> Checked<i64> {
    let version = match body.read_optional(constructed(0)).or_fail("malformed version")? {
        None => 0,
        Some(mut explicit) => {
            let number = explicit.read_i64(INTEGER).filter(|_| explicit.is_empty());
            number.filter(|number| *number >= 0).or_fail("malformed version")?
        }
    };
    if version > 2 { fail("invalid version") } else { Ok(version + 1) }
}

/// Reads the object identifier of an algorithm, and its parameters including their header.
fn algorithm_identifier<'a>(mut der: Der<'a>) -> Checked<(Vec<u32>, &'a [u8])> {
    let oid = der.read_oid().or_fail("malformed OID")?;
    if der.is_empty() {
        return Ok((oid, &[]));
    }
    let parameters = der.read_any().or_fail("malformed parameters")?;
    Ok((oid, parameters.whole))
}

/// Validates a distinguished name.
fn name(mut der: Der<'_>) -> Checked {
    while !der.is_empty() {
        let mut set = der.read(SET).or_fail("invalid RDNSequence")?;
        while !set.is_empty() {
            let mut attribute = set.read(SEQUENCE).or_fail("invalid RDNSequence: invalid attribute")?;
            attribute.read_oid().or_fail("invalid RDNSequence: invalid attribute type")?;
            let value = attribute.read_any().or_fail("invalid RDNSequence: invalid attribute value")?;
            if let Err(why) = text(value.tag, value.content) {
                return fail(&format!("invalid RDNSequence: invalid attribute value: {why}"));
            }
        }
    }
    Ok(())
}

/// Validates a string of the type `tag`.
fn text(tag: u8, bytes: &[u8]) -> Checked {
    let (is_good, kind) = match tag {
        T61_STRING => (true, ""),
        PRINTABLE_STRING => {
            let is_printable = |byte: &u8| byte.is_ascii_alphanumeric() || b"'() +,-./:=?*&".contains(byte);
            (bytes.iter().all(is_printable), "invalid PrintableString")
        }
        UTF8_STRING => (std::str::from_utf8(bytes).is_ok(), "invalid UTF-8 string"),
        BMP_STRING => (is_bmp(bytes), "invalid BMPString"),
        IA5_STRING => (bytes.is_ascii(), "invalid IA5String"),
        NUMERIC_STRING => (bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b' '), "invalid NumericString"),
        other => return Err(format!("unsupported string type: {other}")),
    };
    if is_good { Ok(()) } else { Err(kind.to_owned()) }
}

/// Whether the bytes are UCS-2 without reserved code points; a terminating zero is allowed.
fn is_bmp(bytes: &[u8]) -> bool {
    let points = bytes.strip_suffix(&[0, 0]).unwrap_or(bytes).chunks_exact(2);
    // Surrogates and noncharacters are not valid in UCS-2.
    let is_reserved = |point: u16| point >= 0xfffe || matches!(point, 0xfdd0..=0xfdef | 0xd800..=0xdfff);
    bytes.len().is_multiple_of(2) && !points.map(|pair| u16::from_be_bytes([pair[0], pair[1]])).any(is_reserved)
}

/// Validates a time, in either of the two forms.
fn time(der: &mut Der<'_>) -> Checked {
    if der.peeks(UTC_TIME) {
        let text = der.read(UTC_TIME).or_fail("malformed UTCTime")?.0;
        // Go accepts UTCTime with and without seconds.
        let is_good = is_time(text, 2, true) || is_time(text, 2, false);
        return is_good.then_some(()).or_fail("malformed UTCTime");
    }
    if der.peeks(GENERALIZED_TIME) {
        let text = der.read(GENERALIZED_TIME).or_fail("malformed GeneralizedTime")?.0;
        return is_time(text, 4, true).then_some(()).or_fail("malformed GeneralizedTime");
    }
    fail("unsupported time format")
}

/// Whether a text is a date, a time and `Z` or an offset, in digits. Two-digit years from 69 on are 19xx.
fn is_time(text: &[u8], year_digits: usize, has_seconds: bool) -> bool {
    let digits = year_digits + if has_seconds { 10 } else { 8 };
    let Some((date, zone)) = text.split_at_checked(digits) else { return false };
    if !date.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let number = |digits: &[u8]| digits.iter().fold(0u32, |number, digit| number * 10 + u32::from(digit - b'0'));
    let pair = |at: usize| number(&date[year_digits + at..year_digits + at + 2]);
    let year = match year_digits {
        2 => match number(&date[..2]) {
            year @ 0..69 => 2000 + year,
            year => 1900 + year,
        },
        _ => number(&date[..4]),
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match pair(0) {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    let is_clock = pair(4) < 24 && pair(6) < 60 && (!has_seconds || pair(8) < 60);
    let is_zone = match zone {
        b"Z" => true,
        // The offset zero must be written as Z.
        [b'+' | b'-', offset @ ..] if offset.len() == 4 && offset.iter().all(u8::is_ascii_digit) => {
            number(&offset[..2]) <= 24 && number(&offset[2..]) < 60 && offset != b"0000"
        }
        _ => false,
    };
    (1..=days).contains(&pair(2)) && is_clock && is_zone
}

/// Validates a public key by its algorithm; unknown algorithms are accepted.
fn public_key(mut der: Der<'_>) -> Checked {
    let algorithm = der.read(SEQUENCE).or_fail("malformed public key algorithm identifier")?;
    let (oid, parameters) = algorithm_identifier(algorithm)?;
    let (bits, padding) = der.read_bits().or_fail("malformed subjectPublicKey")?;
    let key = align(bits, padding);
    match &*oid {
        [1, 2, 840, 113_549, 1, 1, 1] => rsa_key(&key, parameters),
        [1, 2, 840, 10_045, 2, 1] => elliptic_key(&key, parameters),
        [1, 3, 101, 112] if !parameters.is_empty() => fail("Ed25519 key encoded with illegal parameters"),
        [1, 3, 101, 112] if key.len() != 32 => fail("wrong Ed25519 public key size"),
        [1, 3, 101, 110] if !parameters.is_empty() => fail("X25519 key encoded with illegal parameters"),
        // This error comes from another package of Go.
        [1, 3, 101, 110] if key.len() != 32 => Err("crypto/ecdh: invalid public key".to_owned()),
        [1, 2, 840, 10_040, 4, 1] => dsa_key(&key, parameters),
        _ => Ok(()),
    }
}

/// Shifts the bits of a bit string so that its padding is at the beginning.
fn align(bits: &[u8], padding: u8) -> Vec<u8> {
    if padding == 0 {
        return bits.to_vec();
    }
    let before = std::iter::once(0).chain(bits.iter().copied());
    before.zip(bits).map(|(before, byte)| before << (8 - padding) | byte >> padding).collect()
}

fn is_positive(integer: &[u8]) -> bool {
    integer[0] & 0x80 == 0 && integer != [0]
}

fn rsa_key(key: &[u8], parameters: &[u8]) -> Checked {
    if parameters != [NULL, 0] {
        return fail("RSA key missing NULL parameters");
    }
    let mut der = Der(key).read(SEQUENCE).or_fail("invalid RSA public key")?;
    let modulus = der.read_integer(INTEGER).or_fail("invalid RSA modulus")?;
    let exponent = der.read_i64(INTEGER).or_fail("invalid RSA public exponent")?;
    if !is_positive(modulus) {
        return fail("RSA modulus is not a positive number");
    }
    if exponent <= 0 {
        return fail("RSA public exponent is not a positive number");
    }
    Ok(())
}

fn elliptic_key(key: &[u8], parameters: &[u8]) -> Checked {
    let curve = Der(parameters).read_oid().or_fail("invalid ECDSA parameters")?;
    let field_bytes = match &*curve {
        [1, 3, 132, 0, 33] => 28,
        [1, 2, 840, 10_045, 3, 1, 7] => 32,
        [1, 3, 132, 0, 34] => 48,
        [1, 3, 132, 0, 35] => 66,
        _ => return fail("unsupported elliptic curve"),
    };
    // Only uncompressed points, which begin with 4 and have two coordinates.
    if key.first() != Some(&4) || key.len() != 1 + 2 * field_bytes {
        return fail("failed to unmarshal elliptic curve point");
    }
    Ok(())
}

fn dsa_key(key: &[u8], parameters: &[u8]) -> Checked {
    let y = Der(key).read_integer(INTEGER).or_fail("invalid DSA public key")?;
    let numbers = || {
        let mut der = Der(parameters).read(SEQUENCE)?;
        Some([der.read_integer(INTEGER)?, der.read_integer(INTEGER)?, der.read_integer(INTEGER)?])
    };
    let numbers = numbers().or_fail("invalid DSA parameters")?;
    if !is_positive(y) || !numbers.into_iter().all(is_positive) {
        return fail("zero or negative DSA parameter");
    }
    Ok(())
}

struct Extension<'a> {
    oid: Vec<u32>,
    is_critical: bool,
    value: Der<'a>,
}

fn extensions(mut der: Der<'_>) -> Checked {
    let mut list = der.read(SEQUENCE).or_fail("malformed extensions")?;
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    while !list.is_empty() {
        let extension = extension(list.read(SEQUENCE).or_fail("malformed extension")?)?;
        // RFC 5280 forbids a second extension of one kind.
        if !seen.insert(extension.oid.clone()) {
            let oid: Vec<String> = extension.oid.iter().map(u32::to_string).collect();
            return fail(&format!("certificate contains duplicate extension with OID \"{}\"", oid.join(".")));
        }
        found.push(extension);
    }
    // Only now: Go reads all extensions before it looks into any.
    found.iter().try_for_each(process)
}

/// Reads one extension.
fn extension(mut der: Der<'_>) -> Checked<Extension<'_>> {
    let oid = der.read_oid().or_fail("malformed extension OID field")?;
    let is_critical =
        if der.peeks(BOOLEAN) { der.read_bool().or_fail("malformed extension critical field")? } else { false };
    let value = der.read(OCTET_STRING).or_fail("malformed extension value field")?;
    Ok(Extension { oid, is_critical, value })
}

/// Validates the extensions that Go parses, by object identifier; others are accepted.
fn process(extension: &Extension<'_>) -> Checked {
    let value = extension.value;
    match &*extension.oid {
        [2, 5, 29, 14] if extension.is_critical => fail("subject key identifier incorrectly marked critical"),
        [2, 5, 29, 14] => { value }.read(OCTET_STRING).map(drop).or_fail("invalid subject key identifier"),
        [2, 5, 29, 15] => { value }.read_bits().map(drop).or_fail("invalid key usage"),
        [2, 5, 29, 17] => alternative_names(value),
        [2, 5, 29, 19] => basic_constraints(value).or_fail("invalid basic constraints"),
        [2, 5, 29, 30] => name_constraints(value),
        [2, 5, 29, 31] => distribution_points(value),
        [2, 5, 29, 32] => policies(value).or_fail("invalid certificate policies"),
        [2, 5, 29, 33] => policy_mappings(value).or_fail("invalid policy mappings extension"),
        [2, 5, 29, 35] if extension.is_critical => fail("authority key identifier incorrectly marked critical"),
        [2, 5, 29, 35] => authority_key(value).or_fail("invalid authority key identifier"),
        [2, 5, 29, 36] => policy_constraints(value).or_fail("invalid policy constraints extension"),
        [2, 5, 29, 37] => key_usages(value).or_fail("invalid extended key usages"),
        [2, 5, 29, 54] => { value }.read_i64(INTEGER).map(drop).or_fail("invalid inhibit any policy extension"),
        [1, 3, 6, 1, 5, 5, 7, 1, 1] if extension.is_critical => {
            fail("authority info access incorrectly marked critical")
        }
        [1, 3, 6, 1, 5, 5, 7, 1, 1] => information_access(value).or_fail("invalid authority info access"),
        _ => Ok(()),
    }
}

fn basic_constraints(mut value: Der<'_>) -> Option<()> {
    let mut der = value.read(SEQUENCE)?;
    if der.peeks(BOOLEAN) {
        der.read_bool()?;
    }
    if der.peeks(INTEGER) {
        der.read_i64(INTEGER).filter(|length| *length >= 0)?;
    }
    Some(())
}

fn alternative_names(mut value: Der<'_>) -> Checked {
    let mut names = value.read(SEQUENCE).or_fail("invalid subject alternative names")?;
    while !names.is_empty() {
        let name = names.read_any().or_fail("invalid subject alternative name")?;
        let malformed = match name.tag {
            0x81 => "SAN rfc822Name is malformed",
            0x82 => "SAN dNSName is malformed",
            0x86 => "SAN uniformResourceIdentifier is malformed",
            // An IPv4 or IPv6 address.
            0x87 if !matches!(name.content.len(), 4 | 16) => {
                return fail(&format!("cannot parse IP address of length {}", name.content.len()));
            }
            _ => continue,
        };
        if !name.content.is_ascii() {
            return fail(malformed);
        }
    }
    Ok(())
}

fn name_constraints(mut value: Der<'_>) -> Checked {
    const INVALID: &str = "invalid NameConstraints extension";
    let mut read = || {
        let mut der = value.read(SEQUENCE).filter(|_| value.is_empty())?;
        let subtrees = [der.read_optional(constructed(0))?, der.read_optional(constructed(1))?];
        der.is_empty().then_some(subtrees)
    };
    let subtrees = read().or_fail(INVALID)?;
    if subtrees.iter().flatten().all(Der::is_empty) {
        return fail("empty name constraints extension");
    }
    for mut subtree in subtrees.into_iter().flatten() {
        while !subtree.is_empty() {
            let mut entry = subtree.read(SEQUENCE).or_fail(INVALID)?;
            let base = entry.read_any().or_fail(INVALID)?;
            match (base.tag, base.content) {
                (0x81 | 0x82 | 0x86, text) if !text.is_ascii() => {
                    return fail(&format!(
                        "invalid constraint value: x509: {:?} cannot be encoded as an IA5String",
                        String::from_utf8_lossy(text)
                    ));
                }
                // An address and a mask of the same length.
                (0x87, address) if matches!(address.len(), 8 | 32) => {
                    let mask = &address[address.len() / 2..];
                    if !is_mask(mask) {
                        let mask: String = mask.iter().map(|byte| format!("{byte:02x}")).collect();
                        return fail(&format!("IP constraint contained invalid mask {mask}"));
                    }
                }
                (0x87, address) => return fail(&format!("IP constraint contained value of length {}", address.len())),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether all ones precede all zeros.
fn is_mask(mask: &[u8]) -> bool {
    let ones: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    let mut leading = 0;
    for byte in mask {
        leading += byte.leading_ones();
        if *byte != 0xff {
            break;
        }
    }
    ones == leading
}

fn distribution_points(mut value: Der<'_>) -> Checked {
    let mut points = value.read(SEQUENCE).or_fail("invalid CRL distribution points")?;
    while !points.is_empty() {
        distribution_point(&mut points).or_fail("invalid CRL distribution point")?;
    }
    Ok(())
}

fn distribution_point(points: &mut Der<'_>) -> Option<()> {
    let mut point = points.read(SEQUENCE)?;
    let Some(mut name) = point.read_optional(constructed(0))? else { return Some(()) };
    let mut full = name.read(constructed(0))?;
    while full.peeks(context(6)) {
        full.read(context(6))?;
    }
    Some(())
}

fn policies(mut value: Der<'_>) -> Option<()> {
    let mut list = value.read(SEQUENCE)?;
    let mut seen = HashSet::new();
    while !list.is_empty() {
        let oid = list.read(SEQUENCE)?.read(OBJECT_IDENTIFIER)?.0;
        // Each number ends with a byte whose high bit is clear, and must not begin with 0x80, a leading zero.
        let mut parts = oid.split_inclusive(|byte| byte & 0x80 == 0);
        let is_whole = oid.last().is_some_and(|last| last & 0x80 == 0);
        if !is_whole || parts.any(|part| part[0] == 0x80) || !seen.insert(oid) {
            return None;
        }
    }
    Some(())
}

fn policy_mappings(mut value: Der<'_>) -> Option<()> {
    let mut list = value.read(SEQUENCE)?;
    while !list.is_empty() {
        let mut mapping = list.read(SEQUENCE)?;
        mapping.read(OBJECT_IDENTIFIER)?;
        mapping.read(OBJECT_IDENTIFIER)?;
    }
    Some(())
}

fn policy_constraints(mut value: Der<'_>) -> Option<()> {
    let mut der = value.read(SEQUENCE)?;
    for tag in [context(0), context(1)] {
        if der.peeks(tag) {
            der.read_i64(tag)?;
        }
    }
    Some(())
}

fn authority_key(mut value: Der<'_>) -> Option<()> {
    value.read(SEQUENCE)?.read_optional(context(0)).map(drop)
}

fn key_usages(mut value: Der<'_>) -> Option<()> {
    let mut list = value.read(SEQUENCE)?;
    while !list.is_empty() {
        list.read_oid()?;
    }
    Some(())
}

fn information_access(mut value: Der<'_>) -> Option<()> {
    let mut list = value.read(SEQUENCE)?;
    while !list.is_empty() {
        let mut entry = list.read(SEQUENCE)?;
        entry.read_oid()?;
        if entry.peeks(context(6)) {
            entry.read(context(6))?;
        }
    }
    Some(())
}

//! Checks that a disk image is self-contained, because QEMU opens every file that an image refers to.
//!
//! An image with a backing file or an external data file makes QEMU read that file of the host and expose it to the
//! guest (CVE-2023-32684 in Lima). Only raw images and self-contained qcow2 images are accepted; other formats can
//! refer to files in ways that are not checked here.

use std::{fs::File, io::Read as _, path::Path};

use crate::Error;

/// How much of an image is read. The header of a qcow2 image and its extensions are in the first cluster, whose default
/// size is 64 KiB.
const HEADER_BYTES: u64 = 64 << 10;

const QCOW_MAGIC: &[u8] = b"QFI\xfb";
/// The incompatible feature bit for an external data file.
const EXTERNAL_DATA_FEATURE: u64 = 1 << 2;
/// The type of the header extension with the name of that file.
const EXTERNAL_DATA_EXTENSION: u32 = 0x4441_5441;

/// Formats that can refer to other files, and the first bytes by which QEMU detects them.
const REFERRING_FORMATS: [(&[u8], &str); 5] = [
    (b"QED\0", "QED"),
    (b"KDMV", "VMDK"),
    (b"COWD", "VMDK"),
    (b"# Disk DescriptorFile", "VMDK"),
    (b"vhdxfile", "VHDX"),
];

/// Refuses an image that is not self-contained. An absent file is accepted.
pub(super) fn check_image(path: &Path) -> Result<(), Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::at("open", path)(error)),
    };
    let mut header = Vec::new();
    file.take(HEADER_BYTES).read_to_end(&mut header).map_err(Error::at("read", path))?;
    check_header(&header).map_err(|why| Error::Unsupported {
        missing: format!("the image {} is refused: {why}", path.display()),
        remedy: "use a raw image, or one that `qemu-img convert -O qcow2` has made complete".to_owned(),
    })
}

/// The reason why an image with this header is not self-contained.
fn check_header(header: &[u8]) -> Result<(), String> {
    if let Some((_, format)) = REFERRING_FORMATS.iter().find(|(magic, _)| header.starts_with(magic)) {
        return Err(format!("it is a {format} image, and only raw and qcow2 images are accepted"));
    }
    // Everything else is raw for QEMU.
    if !header.starts_with(QCOW_MAGIC) {
        return Ok(());
    }
    let is_cut_short = || "its qcow2 header is cut short".to_owned();
    let version = read_u32(header, 4).ok_or_else(is_cut_short)?;
    if !matches!(version, 2 | 3) {
        return Err(format!("it is a qcow image of version {version}, and only 2 and 3 are accepted"));
    }
    // Offset and size of the backing file's name.
    if read_u64(header, 8).ok_or_else(is_cut_short)? != 0 || read_u32(header, 16).ok_or_else(is_cut_short)? != 0 {
        return Err("it has a backing file".to_owned());
    }
    if version == 2 {
        // A header of version 2 has a fixed length and no feature bits.
        return check_extensions(header, 72);
    }
    if read_u64(header, 72).ok_or_else(is_cut_short)? & EXTERNAL_DATA_FEATURE != 0 {
        return Err("it has an external data file".to_owned());
    }
    // A header of version 3 contains its own length.
    let length = read_u32(header, 100).ok_or_else(is_cut_short)?;
    check_extensions(header, usize::try_from(length).unwrap_or(usize::MAX))
}

/// Searches the header extensions: each has a type, a length, and data padded to a multiple of eight bytes.
fn check_extensions(header: &[u8], mut at: usize) -> Result<(), String> {
    while let (Some(kind), Some(length)) = (read_u32(header, at), read_u32(header, at.saturating_add(4))) {
        match kind {
            0 => return Ok(()),
            EXTERNAL_DATA_EXTENSION => return Err("it has an external data file".to_owned()),
            _ => {}
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        at = at.saturating_add(8).saturating_add(length.checked_next_multiple_of(8).unwrap_or(usize::MAX));
    }
    Ok(())
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(field.try_into().ok()?))
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_be_bytes(field.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a qcow2 header with these extensions.
    fn qcow2(version: u32, extensions: &[(u32, &[u8])]) -> Vec<u8> {
        let length: usize = if version == 2 { 72 } else { 104 };
        let mut header = vec![0; length];
        header[..4].copy_from_slice(QCOW_MAGIC);
        header[4..8].copy_from_slice(&version.to_be_bytes());
        if version > 2 {
            header[100..104].copy_from_slice(&104_u32.to_be_bytes());
        }
        for (kind, text) in extensions {
            header.extend(kind.to_be_bytes());
            header.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
            header.extend(*text);
            header.resize(header.len().next_multiple_of(8), 0);
        }
        header.extend([0; 8]);
        header
    }

    fn with(mut header: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
        header[at..at + bytes.len()].copy_from_slice(bytes);
        header
    }

    // Finding A-9
    #[test]
    fn an_image_that_refers_to_another_file_is_refused() {
        let feature_names = (0x6803_f857, &b"\0\x01lazy refcounts"[..]);
        for complete in
            [Vec::new(), b"\xeb\x63\x90 a raw disk".to_vec(), qcow2(2, &[]), qcow2(3, &[]), qcow2(3, &[feature_names])]
        {
            assert_eq!(check_header(&complete), Ok(()));
        }
        for (header, why) in [
            (with(qcow2(2, &[]), 8, &112_u64.to_be_bytes()), "a backing file"),
            (with(qcow2(3, &[]), 8, &112_u64.to_be_bytes()), "a backing file"),
            (with(qcow2(3, &[]), 16, &11_u32.to_be_bytes()), "a backing file"),
            (with(qcow2(3, &[]), 72, &EXTERNAL_DATA_FEATURE.to_be_bytes()), "an external data file"),
            (qcow2(3, &[feature_names, (EXTERNAL_DATA_EXTENSION, b"/etc/shadow")]), "an external data file"),
            (with(qcow2(3, &[]), 4, &1_u32.to_be_bytes()), "version 1"),
            (qcow2(3, &[])[..40].to_vec(), "cut short"),
            (QCOW_MAGIC.to_vec(), "cut short"),
            (b"QED\0".to_vec(), "QED"),
            (b"# Disk DescriptorFile\nversion=1\n".to_vec(), "VMDK"),
            (b"vhdxfile".to_vec(), "VHDX"),
        ] {
            let refused = check_header(&header).unwrap_err();
            assert!(refused.contains(why), "{refused} instead of {why}");
        }
    }

    #[test]
    fn headers_of_every_length_and_wild_extensions_end_the_search() {
        let header = qcow2(3, &[(1, b"x"), (2, b"y")]);
        for length in 0..header.len() {
            let _ = check_header(&header[..length]);
        }
        assert_eq!(check_header(&with(qcow2(3, &[]), 100, &u32::MAX.to_be_bytes())), Ok(()));
        assert_eq!(check_header(&with(qcow2(3, &[(7, b"x")]), 108, &u32::MAX.to_be_bytes())), Ok(()));
    }

    #[test]
    fn the_file_is_named_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("basedisk");
        check_image(&path).unwrap();
        std::fs::write(&path, with(qcow2(3, &[]), 8, &1_u64.to_be_bytes())).unwrap();
        let refused = check_image(&path).unwrap_err().to_string();
        assert!(refused.contains("basedisk is refused: it has a backing file; use a raw image"), "{refused}");
    }
}

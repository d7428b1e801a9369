//! A simulated disk as a SQLite VFS, with power loss and a full disk.
//!
//! What was written since a file's last sync may be lost, kept, kept partially (in 512-byte sectors), or kept while an earlier
//! write is lost. A new file's name is durable after the file's first sync.

#![allow(unsafe_code, reason = "a SQLite VFS is a table of C functions; there is no safe way to write one")]
#![allow(dead_code, reason = "each test uses a part of it")]

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString, c_char, c_int, c_void},
    ptr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use rusqlite::ffi;

const SECTOR: usize = 512;

/// A small deterministic generator, so that a seed reproduces a failure.
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

#[derive(Debug, Clone)]
enum Pending {
    Write { offset: usize, data: Vec<u8> },
    Truncate(usize),
}

#[derive(Debug, Clone, Default)]
struct Content {
    durable: Vec<u8>,
    /// Whether the file's name is durable.
    named: bool,
    current: Vec<u8>,
    pending: Vec<Pending>,
}

#[derive(Debug)]
struct State {
    files: BTreeMap<String, Content>,
    random: Random,
    /// Power fails at the call that decrements this to zero.
    calls_left: Option<u64>,
    /// The content of the disk after the power failure.
    image: Option<BTreeMap<String, Content>>,
    full: bool,
    /// The next sync fails; the disk continues to work, as real disks do.
    sync_fails: bool,
}

/// The disk. It stays registered with SQLite until the process ends.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    name: String,
    state: &'static Mutex<State>,
}

impl Disk {
    /// An empty disk.
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_files(seed, BTreeMap::new())
    }

    fn with_files(seed: u64, files: BTreeMap<String, Content>) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("disk-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let state =
            State { files, random: Random(seed), calls_left: None, image: None, full: false, sync_fails: false };
        let state: &'static Mutex<State> = Box::leak(Box::new(Mutex::new(state)));
        register(&name, state);
        Self { name, state }
    }

    /// The name of the VFS.
    pub(crate) fn vfs(&self) -> String {
        self.name.clone()
    }

    /// Makes power fail at the n-th writing, truncating or syncing call from now.
    pub(crate) fn fail_after(&self, calls: u64) {
        lock(self.state).calls_left = Some(calls.max(1));
    }

    /// Makes power fail now, unless it has failed already.
    pub(crate) fn fail_now(&self) {
        lock(self.state).fail();
    }

    /// While full, every write that extends a file fails.
    pub(crate) fn set_full(&self, full: bool) {
        lock(self.state).full = full;
    }

    /// Frees the files; the VFS stays registered.
    pub(crate) fn discard(self) {
        lock(self.state).files.clear();
    }

    /// Makes the next sync fail.
    pub(crate) fn fail_next_sync(&self) {
        lock(self.state).sync_fails = true;
    }

    /// The disk after power returns.
    pub(crate) fn after_failure(&self) -> Self {
        let mut state = lock(self.state);
        state.fail();
        let files = state.image.replace(BTreeMap::new()).expect("power has failed");
        let seed = state.random.next();
        // The old disk is not used again; only the empty VFS stays registered.
        state.files.clear();
        drop(state);
        Self::with_files(seed, files)
    }
}

impl State {
    fn fail(&mut self) {
        if self.image.is_some() {
            return;
        }
        let mut image = BTreeMap::new();
        for (name, content) in &self.files {
            if let Some(survivor) = survive(content, &mut self.random) {
                image.insert(name.clone(), survivor);
            }
        }
        self.image = Some(image);
    }

    /// Counts a call; returns false if the disk has no power.
    fn powered(&mut self) -> bool {
        if let Some(left) = &mut self.calls_left {
            *left -= 1;
            if *left == 0 {
                self.calls_left = None;
                self.fail();
            }
        }
        self.image.is_none()
    }
}

/// What remains of a file after a power failure.
fn survive(content: &Content, random: &mut Random) -> Option<Content> {
    let mood = random.below(5);
    if !content.named && mood <= 1 {
        return None;
    }
    let mut bytes = content.durable.clone();
    for pending in &content.pending {
        let fate = match mood {
            0 => 0,
            1 => 1,
            _ => random.below(3),
        };
        match (fate, pending) {
            (0, _) => {}
            (1, pending) => apply(&mut bytes, pending),
            (_, Pending::Write { offset, data }) => {
                for start in (0..data.len()).step_by(SECTOR) {
                    if random.below(2) == 0 {
                        let data = data[start..(start + SECTOR).min(data.len())].to_vec();
                        apply(&mut bytes, &Pending::Write { offset: offset + start, data });
                    }
                }
            }
            (_, truncate) => apply(&mut bytes, truncate),
        }
    }
    Some(Content { durable: bytes.clone(), named: true, current: bytes, pending: Vec::new() })
}

fn apply(bytes: &mut Vec<u8>, pending: &Pending) {
    match pending {
        Pending::Write { offset, data } => {
            if bytes.len() < offset + data.len() {
                bytes.resize(offset + data.len(), 0);
            }
            bytes[*offset..offset + data.len()].copy_from_slice(data);
        }
        Pending::Truncate(length) => bytes.resize(*length, 0),
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("the disk does not panic")
}

/// The memory that SQLite allocates for an open file: SQLite's part first, then ours.
#[repr(C)]
struct OpenFile {
    base: ffi::sqlite3_file,
    state: &'static Mutex<State>,
    name: *mut String,
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(no_lock),
    xUnlock: Some(no_lock),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

fn register(name: &str, state: &'static Mutex<State>) {
    let name = CString::new(name).expect("no zero in it").into_raw();
    let vfs = ffi::sqlite3_vfs {
        iVersion: 1,
        szOsFile: size_of::<OpenFile>() as c_int,
        mxPathname: 512,
        pNext: ptr::null_mut(),
        zName: name,
        pAppData: ptr::from_ref(state).cast_mut().cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: None,
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    };
    // SAFETY: the table is complete for version 1 and is leaked, as are its name and state, so all outlive the process's
    // use of SQLite.
    let code = unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(vfs)), 0) };
    assert_eq!(code, ffi::SQLITE_OK);
}

/// The disk behind a VFS.
///
/// # Safety
/// `vfs` is one that [`register`] made.
unsafe fn disk(vfs: *mut ffi::sqlite3_vfs) -> &'static Mutex<State> {
    // SAFETY: `register` put a leaked `Mutex<State>` there.
    unsafe { &*(*vfs).pAppData.cast::<Mutex<State>>() }
}

/// The file that SQLite hands back, and the locked disk.
///
/// # Safety
/// `file` was opened by [`open`] and has not been closed.
unsafe fn with_file<T>(file: *mut ffi::sqlite3_file, act: impl FnOnce(&mut State, &str) -> T) -> T {
    // SAFETY: `open` initialised all of `OpenFile` in this memory, and the name lives until `close`.
    let (state, name) = unsafe {
        let file = file.cast::<OpenFile>();
        ((*file).state, &*(*file).name)
    };
    act(&mut lock(state), name)
}

/// # Safety
/// `name` is null or a C string.
unsafe fn text(name: *const c_char) -> String {
    if name.is_null() {
        return "temporary".to_owned();
    }
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls this with our VFS, a valid name, `szOsFile` bytes of memory and a place for flags, or null.
    unsafe {
        let (state, name) = (disk(vfs), text(name));
        let opened = file.cast::<OpenFile>();
        (*opened).base.pMethods = ptr::null();
        {
            let mut state = lock(state);
            if state.image.is_some() {
                return ffi::SQLITE_CANTOPEN;
            }
            if flags & ffi::SQLITE_OPEN_CREATE == 0 && !state.files.contains_key(&name) {
                return ffi::SQLITE_CANTOPEN;
            }
            state.files.entry(name.clone()).or_default();
        }
        ptr::addr_of_mut!((*opened).state).write(state);
        ptr::addr_of_mut!((*opened).name).write(Box::into_raw(Box::new(name)));
        (*opened).base.pMethods = &raw const METHODS;
        if !out.is_null() {
            *out = flags;
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: `open` boxed the name; SQLite closes a file once.
    unsafe { drop(Box::from_raw((*file.cast::<OpenFile>()).name)) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, buffer: *mut c_void, amount: c_int, offset: i64) -> c_int {
    // SAFETY: the file is open, and `buffer` has room for `amount` bytes.
    unsafe {
        let buffer = std::slice::from_raw_parts_mut(buffer.cast::<u8>(), amount as usize);
        with_file(file, |state, name| {
            let Some(content) = state.files.get(name) else { return ffi::SQLITE_IOERR_READ };
            let bytes = content.current.get(offset as usize..).unwrap_or_default();
            let count = bytes.len().min(buffer.len());
            buffer[..count].copy_from_slice(&bytes[..count]);
            buffer[count..].fill(0);
            if count == buffer.len() { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_SHORT_READ }
        })
    }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, buffer: *const c_void, amount: c_int, offset: i64) -> c_int {
    // SAFETY: the file is open, and `buffer` holds `amount` bytes.
    unsafe {
        let data = std::slice::from_raw_parts(buffer.cast::<u8>(), amount as usize).to_vec();
        with_file(file, |state, name| {
            let length = state.files.get(name).map_or(0, |content| content.current.len());
            if state.full && offset as usize + data.len() > length {
                return ffi::SQLITE_FULL;
            }
            let pending = Pending::Write { offset: offset as usize, data };
            // The write during which power fails may be kept partially, too.
            if let Some(content) = state.files.get_mut(name).filter(|_| state.image.is_none()) {
                apply(&mut content.current, &pending);
                content.pending.push(pending);
            }
            if state.powered() { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_WRITE }
        })
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: the file is open.
    unsafe {
        with_file(file, |state, name| {
            if let Some(content) = state.files.get_mut(name).filter(|_| state.image.is_none()) {
                let pending = Pending::Truncate(size as usize);
                apply(&mut content.current, &pending);
                content.pending.push(pending);
            }
            if state.powered() { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_TRUNCATE }
        })
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: the file is open.
    unsafe {
        with_file(file, |state, name| {
            // A sync during which power fails guarantees nothing; a sync that returned guarantees everything.
            if !state.powered() || std::mem::take(&mut state.sync_fails) {
                return ffi::SQLITE_IOERR_FSYNC;
            }
            if let Some(content) = state.files.get_mut(name) {
                content.pending.clear();
                content.durable.clone_from(&content.current);
                content.named = true;
            }
            ffi::SQLITE_OK
        })
    }
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: the file is open, and `size` points to a number.
    unsafe {
        *size = with_file(file, |state, name| state.files.get(name).map_or(0, |content| content.current.len() as i64))
    };
    ffi::SQLITE_OK
}

unsafe extern "C" fn no_lock(_: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved(_: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: `out` points to a number.
    unsafe { *out = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    SECTOR as c_int
}

/// Like SQLite's own VFS for Unix: a power failure does not change sectors that are not being written.
unsafe extern "C" fn characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, _: c_int) -> c_int {
    // SAFETY: our VFS and a C string.
    let (state, name) = unsafe { (disk(vfs), text(name)) };
    let mut state = lock(state);
    if !state.powered() {
        return ffi::SQLITE_IOERR_DELETE;
    }
    if state.files.remove(&name).is_some() { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_DELETE_NOENT }
}

unsafe extern "C" fn access(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, _: c_int, out: *mut c_int) -> c_int {
    // SAFETY: our VFS, a C string, and a place for a number.
    unsafe { *out = c_int::from(lock(disk(vfs)).files.contains_key(&text(name))) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    size: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: `name` is a C string, and `out` has room for `size` bytes.
    unsafe {
        let bytes = CStr::from_ptr(name).to_bytes_with_nul();
        if bytes.len() > size as usize {
            return ffi::SQLITE_CANTOPEN;
        }
        ptr::copy_nonoverlapping(bytes.as_ptr().cast::<c_char>(), out, bytes.len());
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn randomness(vfs: *mut ffi::sqlite3_vfs, size: c_int, out: *mut c_char) -> c_int {
    // SAFETY: our VFS, and `size` bytes at `out`.
    unsafe {
        let mut state = lock(disk(vfs));
        for place in 0..size as usize {
            *out.add(place) = state.random.next() as c_char;
        }
    }
    size
}

unsafe extern "C" fn sleep(_: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    microseconds
}

unsafe extern "C" fn current_time(_: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: `out` points to a number.
    unsafe { *out = 2_460_000.5 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn last_error(_: *mut ffi::sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    0
}

/// The seed from the environment, or from the clock; printed, so that a failure can be reproduced.
pub(crate) fn seed(variable: &str) -> u64 {
    let seed = std::env::var(variable).ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
        #[expect(clippy::disallowed_methods, reason = "a seed is to differ from run to run")]
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        now.as_nanos() as u64
    });
    println!("{variable}={seed}");
    seed
}

/// A shared store handle for threads.
pub(crate) type SharedStore = Arc<dyn rdd_store::Store>;

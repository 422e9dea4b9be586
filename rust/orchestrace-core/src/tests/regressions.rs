//! Inputs that once broke something, through the targets of `rust/fuzz` that they broke: the files of
//! `rust/fuzz/regressions/<target>/`.

use std::fs;
use std::path::{Path, PathBuf};

use super::invariants::targets;
use orchestrace_core::importers::IMPORTERS;

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/regressions")
}

#[test]
fn what_broke_once_holds() {
    let mut broken = Vec::new();
    let mut n_checked = 0;
    for folder in files(&root()) {
        let target = folder.file_name().expect("a name").to_string_lossy().into_owned();
        for path in files(&folder) {
            let bytes = fs::read(&path).expect("the file is there");
            match std::panic::catch_unwind(|| targets::ask(&target, &bytes)) {
                Ok(known) => assert!(known, "no target '{target}'"),
                Err(_told) => broken.push(path),
            }
            n_checked += 1;
        }
    }
    assert!(n_checked > 0 && broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_importer_has_a_target() {
    let names = targets::names();
    for importer in IMPORTERS {
        let name = format!("import_{}", importer.info().name);
        assert!(names.contains(&name), "no target '{name}'");
        assert!(targets::ask(&name, b"noise\n"));
    }
    assert!(!targets::ask("import_of_nothing", b"noise\n"));
}

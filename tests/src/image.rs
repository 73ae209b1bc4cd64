//! Images made on the spot from programs of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::TryStreamExt;

use crate::Engine;

/// The files of an image: a program and the libraries that it names, and nothing else.
#[derive(Clone, Debug)]
pub struct Files {
    tar: Vec<u8>,
    entrypoint: String,
}

impl Files {
    /// Those of a program, which is at the top and is what the image runs.
    pub fn of(program: &Path) -> Self {
        let stage = tempfile::Builder::new().prefix("co").tempdir_in("/tmp").unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        let own = stage.path().join(name);
        fs::copy(program, &own).unwrap();
        // Half of what a build for tests is, and nobody looks at it there. What cannot be made smaller is taken as it is.
        let _ = Command::new("strip").arg("--strip-debug").arg(&own).status();
        for library in libraries(program) {
            let there = stage.path().join(library.strip_prefix("/").unwrap());
            fs::create_dir_all(there.parent().unwrap()).unwrap();
            fs::copy(&library, there).unwrap();
        }
        let tar = Command::new("tar").arg("-C").arg(stage.path()).args(["-c", "."]).output().unwrap();
        assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
        Self { tar: tar.stdout, entrypoint: format!("/{name}") }
    }

    /// Gives an engine the image under that name.
    pub async fn give(&self, engine: &Engine, repository: &str, tag: &str) {
        let changes = vec![format!("ENTRYPOINT [\"{}\"]", self.entrypoint), "ENV PATH=/".to_owned()];
        let options = CreateImageOptionsBuilder::new().from_src("-").repo(repository).tag(tag);
        let body = bollard::body_full(self.tar.clone().into());
        let made = engine.docker().create_image(Some(options.changes(changes).build()), Some(body), None);
        made.try_collect::<Vec<_>>().await.unwrap();
    }
}

/// The libraries that a program is linked to, and what loads them; none of one that is linked statically.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output();
    let output = output.unwrap_or_else(|error: io::Error| panic!("ldd {}: {error}", program.display()));
    let said = String::from_utf8_lossy(&output.stdout);
    let paths = said.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':'));
    paths.map(PathBuf::from).collect()
}

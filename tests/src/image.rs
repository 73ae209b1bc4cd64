//! Builds container images from programs of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::TryStreamExt;

use crate::Engine;

/// The files of an image: one program and its shared libraries.
#[derive(Clone, Debug)]
pub struct Files {
    tar: Vec<u8>,
    entrypoint: String,
    /// Default arguments, a JSON list.
    arguments: String,
}

impl Files {
    /// Collects the files of an image for a program. The program is in the root directory and is the entry point.
    pub fn of(program: &Path) -> Self {
        let stage = tempfile::Builder::new().prefix("co").tempdir_in("/tmp").unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        let own = stage.path().join(name);
        fs::copy(program, &own).unwrap();
        // Debug information is half the size of a test build and is not needed there. If `strip` fails, the file is
        // used as it is.
        let _ = Command::new("strip").arg("--strip-debug").arg(&own).status();
        for library in libraries(program) {
            let there = stage.path().join(library.strip_prefix("/").unwrap());
            fs::create_dir_all(there.parent().unwrap()).unwrap();
            fs::copy(&library, there).unwrap();
        }
        let tar = Command::new("tar").arg("-C").arg(stage.path()).args(["-c", "."]).output().unwrap();
        assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
        Self { tar: tar.stdout, entrypoint: format!("/{name}"), arguments: "[]".to_owned() }
    }

    /// Sets the default arguments of the program.
    pub fn with_arguments(self, arguments: &[&str]) -> Self {
        Self { arguments: serde_json::Value::from(arguments).to_string(), ..self }
    }

    /// Imports the image into an engine under the given name.
    pub async fn give(&self, engine: &Engine, repository: &str, tag: &str) {
        let changes = vec![
            format!("ENTRYPOINT [\"{}\"]", self.entrypoint),
            format!("CMD {}", self.arguments),
            "ENV PATH=/".to_owned(),
        ];
        let options = CreateImageOptionsBuilder::new().from_src("-").repo(repository).tag(tag);
        let body = bollard::body_full(self.tar.clone().into());
        let made = engine.docker().create_image(Some(options.changes(changes).build()), Some(body), None);
        made.try_collect::<Vec<_>>().await.unwrap();
    }
}

/// Returns the shared libraries of a program and its dynamic loader. A static program has none.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output();
    let output = output.unwrap_or_else(|error: io::Error| panic!("ldd {}: {error}", program.display()));
    let printed = String::from_utf8_lossy(&output.stdout);
    let paths = printed.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':'));
    paths.map(PathBuf::from).collect()
}

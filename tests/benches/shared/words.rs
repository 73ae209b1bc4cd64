//! Parses the command line of a benchmark: selected parts and additional options.

/// The remaining command-line arguments.
pub struct Words(Box<dyn Iterator<Item = String>>);

impl Words {
    /// Returns the value of the option `of`.
    pub fn text(&mut self, of: &str) -> Result<String, String> {
        self.0.next().ok_or_else(|| format!("{of} needs a word behind it"))
    }

    /// Returns the value of the option `of`, a number greater than 0.
    pub fn number(&mut self, of: &str) -> Result<usize, String> {
        let number = self.text(of).ok().and_then(|text| text.parse().ok()).filter(|number| *number > 0);
        number.ok_or_else(|| format!("{of} needs a number"))
    }
}

/// Parses the command line and returns the selected parts. The first part is called `a`.
///
/// `own` receives each option that not all benchmarks have, and returns whether it accepts the option. `known`
/// lists these options for the error message. Exits on a usage error.
pub fn parts<P: Copy>(
    all: &[P],
    known: &str,
    mut own: impl FnMut(&str, &mut Words) -> Result<bool, String>,
) -> Vec<P> {
    let mut words = Words(Box::new(std::env::args().skip(1)));
    let mut read = || -> Result<Vec<P>, String> {
        let mut parts = all.to_vec();
        while let Some(word) = words.0.next() {
            match word.as_str() {
                "--only" => parts = chosen(all, &words.0.next().unwrap_or_default())?,
                "--bench" => {} // `cargo bench` passes this option to every benchmark
                other if own(other, &mut words)? => {}
                other => return Err(format!("{other}: know --only {}, {known}", letters(all))),
            }
        }
        Ok(parts)
    };
    read().unwrap_or_else(|mistake| {
        eprintln!("bench: {mistake}");
        std::process::exit(2);
    })
}

/// Returns the parts with the given letters (`a,c`). An empty list selects no part. An unknown letter is an error.
fn chosen<P: Copy>(all: &[P], text: &str) -> Result<Vec<P>, String> {
    let one = |letter: &str| {
        let found = ('a'..).zip(all).find(|(name, _)| letter == name.to_string());
        found.map(|(_, part)| *part).ok_or_else(|| format!("--only {letter}: the parts are {}", letters(all)))
    };
    text.split(',').filter(|letter| !letter.is_empty()).map(one).collect()
}

fn letters<P>(all: &[P]) -> String {
    ('a'..).zip(all).map(|(letter, _)| letter.to_string()).collect::<Vec<_>>().join(",")
}

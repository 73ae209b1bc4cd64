//! How a bench was called: the parts of it by their letters, and words of its own.

/// The words that follow.
pub struct Words(Box<dyn Iterator<Item = String>>);

impl Words {
    /// What is behind a word.
    pub fn text(&mut self, of: &str) -> Result<String, String> {
        self.0.next().ok_or_else(|| format!("{of} needs a word behind it"))
    }

    /// The number behind a word, which is not 0.
    pub fn number(&mut self, of: &str) -> Result<usize, String> {
        let number = self.text(of).ok().and_then(|text| text.parse().ok()).filter(|number| *number > 0);
        number.ok_or_else(|| format!("{of} needs a number"))
    }
}

/// Reads the command line: which of the parts, the first of which is called `a`, are asked for. `own` is given every word
/// that not each bench knows, and says whether it knows it; `known` is what it knows. Ends the bench after a mistake.
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
                "--bench" => {} // cargo says so to every bench
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

/// The parts of these letters (`a,c`); no letter is no part.
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

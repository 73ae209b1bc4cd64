//! Values of flags: each is read, and every mistake is told, not only the first.

/// What a value should have been, as the end of a sentence that begins with it.
pub type Wanted = String;

/// Who reads the flags of a verb, one after the other.
pub trait Values {
    /// Notes a mistake: the flag, what it says, and what it should.
    fn refuse(&mut self, name: &str, text: &str, wanted: &str);

    /// Reads a flag where it is given; after a mistake the setting stays what it was.
    fn set<T>(
        &mut self,
        name: &str,
        given: &Option<String>,
        read: impl Fn(&str) -> Result<T, Wanted>,
        into: &mut T,
    ) {
        if let Some(text) = given {
            match read(text) {
                Ok(value) => *into = value,
                Err(wanted) => self.refuse(name, text, &wanted),
            }
        }
    }

    /// Reads a list; one given by flags takes the place of one given by a file.
    fn extend<T>(
        &mut self,
        name: &str,
        given: &[String],
        read: impl Fn(&str) -> Result<T, Wanted>,
        into: &mut Vec<T>,
    ) {
        if given.is_empty() {
            return;
        }
        into.clear();
        for text in given {
            match read(text) {
                Ok(value) => into.push(value),
                Err(wanted) => self.refuse(name, text, &wanted),
            }
        }
    }
}

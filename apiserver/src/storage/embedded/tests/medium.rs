//! Inspecting a file does not modify it.

use proptest::prelude::*;
use redb::StorageBackend;

use super::super::medium::Overlay;
use super::disk::Disk;

#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    Len(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0_u64..20_000, 1_usize..9000, any::<u8>());
    let step = prop_oneof![
        write.prop_map(|(offset, length, byte)| Step::Write(offset, vec![byte; length])),
        (0_u64..15_000).prop_map(Step::Len),
    ];
    prop::collection::vec(step, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn overlay_copies_the_disk_lazily(below in prop::collection::vec(any::<u8>(), 0..9000), steps in steps()) {
        let disk = Disk::holding(below.clone());
        let overlay = Overlay::new(disk.backend()).unwrap();
        let mut model = below.clone();
        for step in steps {
            match step {
                Step::Write(offset, data) => {
                    let (from, to) = (offset as usize, offset as usize + data.len());
                    if to <= model.len() {
                        model[from..to].copy_from_slice(&data);
                    }
                    prop_assert_eq!(overlay.write(offset, &data).is_ok(), to <= model.len());
                }
                Step::Len(len) => {
                    model.resize(len as usize, 0);
                    overlay.set_len(len).unwrap();
                }
            }
            let mut all = vec![0; model.len()];
            overlay.read(0, &mut all).unwrap();
            prop_assert!(all == model);
            prop_assert_eq!(overlay.len().unwrap(), model.len() as u64);
        }
        prop_assert!(overlay.read(model.len() as u64, &mut [0]).is_err());
        prop_assert!(disk.bytes() == below);
    }
}

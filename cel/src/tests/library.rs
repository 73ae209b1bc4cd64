//! Tests of the standard library.

use super::{all_fail, all_true};

#[test]
fn texts() {
    all_true(&[
        "'hello'.contains('ell') && 'hello'.startsWith('he') && 'hello'.endsWith('lo')",
        "'tacocat'.indexOf('ac') == 1 && 'tacocat'.indexOf('c', 3) == 4 && 'x'.indexOf('none') == -1",
        "'tacocat'.lastIndexOf('at') == 5 && 'tacocat'.lastIndexOf('c', 3) == 2 && 'abc'.lastIndexOf('') == 3",
        "'TacoCät'.lowerAscii() == 'tacocät' && 'taco'.upperAscii() == 'TACO'",
        "' a b '.trim() == 'a b' && 'abc'.charAt(1) == 'b' && 'abc'.charAt(3) == ''",
        "'täcöcat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco' && 'ä'.size() == 1",
        "'hello hello'.replace('he', 'we') == 'wello wello' && 'aaa'.replace('a', 'b', 2) == 'bba'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'abc'.split('') == ['a', 'b', 'c']",
        "'a'.split(',', 0) == [] && ['a', 'b'].join('-') == 'a-b' && ['a', 'b'].join() == 'ab'",
        "'abc123'.matches('^[a-z]+[0-9]{3}$') && matches('abc', 'b') && !'abc'.matches('^b')",
        "'abc 123 def 456'.find('[0-9]+') == '123' && 'abc'.find('[0-9]') == ''",
        "'123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '123 abc 456'.findAll('[0-9]+', 1) == ['123']",
        "'%s has %d, %.2f%%: %s'.format(['it', 3, 99.5, [1, 'a', {'k': true}]]) == 'it has 3, 99.50%: [1, a, {k: true}]'",
        "'%x %X %b %o'.format([255, 255, 5, 8]) == 'ff FF 101 10' && '%e'.format([1500.0]).startsWith('1.5')",
        "strings.quote('a\"b') == '\"a\\\\\"b\"' && 'abc'.reverse() == 'cba'",
        "base64.decode(base64.encode(b'hi')) == b'hi'",
    ]);
    all_fail(&[
        ("'abc'.substring(2, 1) == ''", "invalid substring range"),
        ("'abc'.charAt(4) == ''", "index out of range: 4"),
        ("'abc'.substring(-1) == ''", "index out of range: -1"),
        ("'%d'.format(['a']) == ''", "%d does not take string"),
        ("'%d'.format([]) == ''", "index out of range"),
        ("'a'.matches(x.deep.er + '(')", "error parsing regexp"),
        ("[1].map(e, x.deep).join() == ''", "join(map)"),
    ]);
}

#[test]
fn lists_and_sets() {
    all_true(&[
        "[1, 2, 2].isSorted() && !words.isSorted() && [].isSorted()",
        "[1, 2, 3].sum() == 6 && [1.5, 2.0].sum() == 3.5 && [].sum() == 0",
        "[3, 1, 2].min() == 1 && ['b', 'c', 'a'].max() == 'c'",
        "words.indexOf('a') == 1 && words.lastIndexOf('a') == 3 && words.indexOf('z') == -1",
        "words.distinct() == ['b', 'a', 'c'] && [[1], [2, 3]].flatten() == [1, 2, 3] && [1, 2].reverse() == [2, 1]",
        "words.sort() == ['a', 'a', 'b', 'c'] && [1, 2, 3].slice(1, 3) == [2, 3] && lists.range(3) == [0, 1, 2]",
        "words.first().value() == 'b' && ![].last().hasValue()",
        "sets.contains([1, 2, 3], [2, 3, 3]) && sets.equivalent([1, 1, 2], [2, 1]) && sets.intersects([1], [1, 2]) && !sets.intersects([], [1])",
        "math.least(3, 1) == 1 && math.greatest([1, 5, 3]) == 5 && math.abs(-2) == 2 && math.ceil(1.2) == 2.0",
        "size(words) == 4 && words.size() == 4 && size(pod.labels) == 2",
    ]);
    all_fail(&[
        ("[].min() == 1", "min called on empty list"),
        ("[1, 'a'].isSorted()", "no such overload"),
        ("[1, 'a'].sort() == []", "no such overload"),
        ("[1].slice(1, 5) == []", "index out of range"),
    ]);
}

#[test]
fn conversions_and_times() {
    all_true(&[
        "int('42') == 42 && int(4.9) == 4 && uint(7) == 7u && double('1.5') == 1.5 && double(2) == 2.0",
        "string(42) == '42' && string(1.5) == '1.5' && string(true) == 'true' && string(b'a') == 'a' && string(1e22) == '1e+22'",
        "bool('true') && bytes('a') == b'a' && dyn(1) == 1",
        "type(1) == int && type('a') == string && type([]) == list && type(null) == null_type && type(int) == type",
        "type(timestamp('2026-01-01T00:00:00Z')) == google.protobuf.Timestamp",
        "duration('1h30m') == duration('90m') && duration('-1.5s') < duration('0') && string(duration('90s')) == '90s'",
        "duration('1h').getMinutes() == 60 && duration('1.5s').getMilliseconds() == 1500",
        "timestamp('2026-11-21T10:00:00Z') + duration('1h') == timestamp('2026-11-21T12:00:00+01:00')",
        "timestamp('2026-11-21T10:00:00Z') - timestamp('2026-11-21T09:00:00Z') == duration('1h')",
        "timestamp('2026-11-22T10:20:30.5Z').getDayOfWeek() == 0 && timestamp('2026-11-21T10:20:30Z').getMonth() == 10",
        "timestamp('2026-11-21T23:00:00Z').getHours('+02:00') == 1 && timestamp('2026-01-02T00:00:00Z').getDayOfYear() == 1",
        "string(timestamp('2026-11-21T10:00:00Z')) == '2026-11-21T10:00:00Z' && int(timestamp('1970-01-01T00:01:00Z')) == 60",
    ]);
    all_fail(&[
        ("int('a') == 1", "cannot convert \"a\" to int"),
        ("duration(x.deep.er) == duration('1s')", "invalid duration \"here\""),
        ("timestamp(x.deep.er) == timestamp('2026-01-01T00:00:00Z')", "cannot parse \"here\""),
        ("timestamp('9999-12-30T00:00:00Z') + duration('9999h') == timestamp(0)", "integer overflow"),
        ("string([1]) == ''", "no such overload"),
    ]);
}

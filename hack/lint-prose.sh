#!/usr/bin/env bash
# Checks the language of the project.
#
#   hack/lint-prose.sh             counts dialect words in comments, docs and messages; fails above the limits below
#   hack/lint-prose.sh show PATH   prints each line of a file or directory that has such a word
#   hack/lint-prose.sh commits     checks commit subjects: `area: imperative summary`, at most 72 characters
#
# hack/lint-prose.allow lists text that is correct although it has such a word. Code in backticks does not count.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The limits only go down: lower them with the figures that this script prints.
# Dialect words per 1,000 lines of comments and docs.
MAX_PER_1000_LINES=12
# Dialect words in log messages, errors and other text for users.
MAX_IN_MESSAGES=12
# The worst files to print.
WORST=15

MAX_SUBJECT_CHARACTERS=72
# The first commit to which the check of subjects applies is the one that added this file.
SELF=hack/lint-prose.sh

words() {
  git ls-files -z --cached --others --exclude-standard | MODE=$1 ONLY=${2:-} WORST=$WORST MAX=$MAX_PER_1000_LINES MAX_MESSAGES=$MAX_IN_MESSAGES perl -e '
    use strict; use warnings;
    my $dialect = qr/\b(?:whoever|whom|whomever|whose|somebody|nobody|anybody|anew|told|tells?\ of|hears?|heard|is\ had|be\ had|sees?\ to\ it|goes\ by
      |stands?\ in\ for|no\ more\ than|for\ as\ long\ as|vouch\w*|be(?:ars?|aring)\ (?:it|them|that)|thought\ away|is\ so
      |who\ (?:has|is|asks|reads|writes|may|wants|waits|holds))\b/xi;
    open my $list, "<", "hack/lint-prose.allow" or die "hack/lint-prose.allow: $!\n";
    my @allowed = map { qr/$_/ } grep { !/^\s*(#|$)/ } map { chomp; $_ } <$list>;
    my (%found, %lines, %total); $found{$_} = {} for qw(prose message);

    sub look {
      my ($kind, $path, $number, $text) = @_;
      $lines{$kind}++;
      my $shown = $text;
      $text =~ s/`[^`]*`//g;
      $text =~ s/$_//g for @allowed;
      my $hits = () = $text =~ /$dialect/g;
      return unless $hits;
      $found{$kind}{$path} += $hits; $total{$kind} += $hits;
      print "$path:$number: ", substr($shown, 0, 170), "\n" if $ENV{MODE} eq "show";
    }

    local $/ = "\0";
    for my $path (map { chomp; $_ } <STDIN>) {
      next if $ENV{ONLY} ne "" and $path ne $ENV{ONLY} and index($path, $ENV{ONLY} =~ s{/*$}{/}r) != 0;
      next if -l $path or !-f $path or $path =~ m{^LICENSES?\b|^hack/lint-prose\.};
      my $kind = $path =~ /\.rs$/ ? "rust" : $path =~ /\.md$/ ? "text" : $path =~ m{\.(sh|ya?ml|toml|py)$|(^|/)Makefile$|^\.ci/} ? "hash" : next;
      open my $file, "<", $path or die "$path: $!\n";
      my $all = do { local $/; <$file> } // "";
      my $number = 0;
      for my $line (split /\n/, $all) {
        $number++;
        if ($kind eq "rust") {
          look("prose", $path, $number, $1) if $line !~ /^\s*"/ and $line =~ m{//[/!]?\s*(.*)};
        } elsif ($kind eq "hash") {
          look("prose", $path, $number, $1) if $line =~ /(?:^|\s)#+\s+(.*)/;
        } else {
          look("prose", $path, $number, $line) if $line =~ /\S/ and $line !~ /^    /;
        }
      }
      next if $kind ne "rust" or $path =~ m{(^|/)tests?(/|\.rs$)};
      $all =~ s/^#\[cfg\(test\)\]\nmod .*\{.*//ms;
      # Comments, characters and raw strings are skipped, so that their quotation marks open no string.
      while ($all =~ m{//[^\n]*|r(\#*)".*?"\1|\x27(?:\\.|[^\x27\\])\x27|"((?:[^"\\]|\\.)*)"}gs) {
        next unless defined $2;
        my $text = $2;
        my $at = 1 + (substr($all, 0, $-[0]) =~ tr/\n//);
        $text =~ s/\\\n\s*//g; $text =~ s/\s+/ /g;
        look("message", $path, $at, $text) if $text =~ /\pL{2,} \pL+ \pL+/;
      }
    }
    exit 0 if $ENV{MODE} eq "show";
    my %both; for my $kind (keys %found) { $both{$_} += $found{$kind}{$_} for keys %{$found{$kind}}; }
    my @worst = sort { $both{$b} <=> $both{$a} || $a cmp $b } keys %both;
    printf "%5d %s\n", $both{$_}, $_ for grep { defined } @worst[0 .. $ENV{WORST} - 1];
    my $rate = 1000 * ($total{prose} // 0) / ($lines{prose} || 1);
    my $messages = $total{message} // 0;
    printf "lint-prose: %d dialect words in %d lines of comments and docs: %.1f per 1,000 (limit %s); %d in %d messages (limit %s)\n",
      $total{prose} // 0, $lines{prose} // 0, $rate, $ENV{MAX}, $messages, $lines{message} // 0, $ENV{MAX_MESSAGES};
    if ($rate > $ENV{MAX} or $messages > $ENV{MAX_MESSAGES}) {
      print STDERR "lint-prose: above the limit: run hack/lint-prose.sh show FILE and write plain sentences (CONTRIBUTING.md, Style)\n";
      exit 1;
    }
  '
}

commits() {
  git rev-parse --is-inside-work-tree >/dev/null 2>&1 || { echo "lint-prose: no git repository here: commit subjects were not checked"; return 0; }
  local first bad=0 checked=0 hash subject
  # In a shallow clone the oldest commit there is seems to have added everything: commits after it are checked.
  first=$(git log -1 --diff-filter=A --format=%H -- "$SELF")
  [ -n "$first" ] || { echo "lint-prose: $SELF is not committed yet: commit subjects were not checked"; return 0; }
  while read -r hash subject; do
    checked=$((checked + 1))
    if ! [[ $subject =~ ^[a-z0-9._/-]+(,\ [a-z0-9._/-]+)*:\ [^\ ].*[^.]$ ]]; then
      echo "lint-prose: $hash \"$subject\": write it as \`area: imperative summary\`" >&2; bad=1
    elif [ ${#subject} -gt $MAX_SUBJECT_CHARACTERS ]; then
      echo "lint-prose: $hash \"$subject\": ${#subject} characters, at most $MAX_SUBJECT_CHARACTERS" >&2; bad=1
    elif [[ $subject =~ :\ (added|adds|adding|changed|changes|fixed|fixes|fixing|made|makes|moved|moves|removed|removes|renamed|renames|updated|updates|used|uses)\  ]]; then
      echo "lint-prose: $hash \"$subject\": write the imperative (add, fix, rename), not \"${BASH_REMATCH[1]}\"" >&2; bad=1
    fi
  done < <(git log --no-merges --ancestry-path --format='%h %s' "$first..HEAD")
  echo "lint-prose: $checked commit subjects checked"
  return $bad
}

case ${1:-} in
  "") words count ;;
  show) words show "${2:-}" ;;
  commits) commits ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac

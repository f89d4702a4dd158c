# shellcheck shell=bash
# Completes the commands, flags and values of velocityd in bash.

_velocityd() {
  local program=${COMP_WORDS[0]/#\~\//$HOME/} tab=$'\t' line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("${line%%"$tab"*}") # without the description
  done < <("$program" __complete -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null)
}

# Where velocityd knows no word, file names are completed.
complete -o default -F _velocityd velocityd

#compdef velocityd
# Completes the commands, flags and values of velocityd in zsh.

_velocityd() {
  local tab=$'\t'
  local -a lines candidates descriptions
  lines=("${(@f)$(${~words[1]} __complete -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
  lines=("${(@)lines:#}")
  if (( ! $#lines )); then
    _files # velocityd knows no word here
    return
  fi
  candidates=("${(@)lines%%${tab}*}")
  descriptions=("${(@)lines/${tab}/  -- }")
  compadd -l -d descriptions -a candidates
}

if [[ ${funcstack[1]} == _velocityd ]]; then
  _velocityd "$@" # this file was loaded from a folder of $fpath
else
  compdef _velocityd velocityd # it was sourced
fi

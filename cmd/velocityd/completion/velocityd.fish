# Completes the commands, flags and values of velocityd in fish.

function __velocityd_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l candidates ($words[1] __complete -- $words "$current" 2>/dev/null)
    if set -q candidates[1]
        printf '%s\n' $candidates
    else
        __fish_complete_path "$current" # velocityd knows no word here
    end
end

complete -c velocityd -f -a '(__velocityd_complete)'

# Completes command lines of the trainer in bash:  source <(trainer completion bash)
# Bash splits a word at "=" and replaces the part after it, so the part before it is taken off.
_trainer() {
  local line=${COMP_LINE:0:COMP_POINT}
  local word=${line##* }
  mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" completion words "$line" 2>/dev/null)
  if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
  if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${word%%=*}="}")
  fi
}
complete -o default -F _trainer trainer

# Completes command lines of the trainer in zsh:  source <(trainer completion zsh)
_trainer() {
  local -a found=("${(@f)$("${words[1]}" completion words "$LBUFFER" 2>/dev/null)}")
  compadd -Q -S '' -- ${(M)found:#*=}
  compadd -Q -- ${found:#*=}
  _files
}
compdef _trainer trainer

"""Completion in bash: click's own cannot complete what follows an address."""

from __future__ import annotations

import os

from click.shell_completion import BashComplete, split_arg_string


class Bash(BashComplete):
    """The script for bash, and the words of its question: the line up to the cursor, split as bash splits commands.

    The words that bash has for completion end at each colon, and so in the middle of an address.
    """

    source_template = """\
%(complete_func)s() {
    local kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            file) compopt -o default ;;
            dir) compopt -o dirnames ;;
        esac
    done < <(%(complete_var)s=bash_complete COMP_WORDS="${COMP_LINE:0:COMP_POINT}" "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the incomplete one, without the command's name; and the incomplete one."""
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)
        incomplete = "" if line[-1:].isspace() else words.pop()
        return words[1:], incomplete

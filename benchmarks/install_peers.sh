#!/bin/sh
# The toolkits that benchmarks/decoding.py and benchmarks/training.py measure beside ours, each in an environment of its
# own, DIR/NAME, with the PyTorch of constraints.txt:
#
#     benchmarks/install_peers.sh DIR [NAME …]          without NAME all: ctranslate2 hugging_face fairseq eole joeynmt
#
# One that is there, DIR/NAME/.installed, is left as it is. Those that cannot be installed are named, with the reason;
# pip's whole output is in DIR/NAME.log. Needs Python 3.11 and, for fairseq, a C++ compiler. PYTHON names another
# interpreter than python3.

set -u
if [ $# -eq 0 ]; then
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
    exit 2
fi
mkdir -p "$1" || exit 1
folder=$(cd "$1" && pwd)
shift
known='ctranslate2 hugging_face fairseq eole joeynmt'
[ $# -gt 0 ] || set -- $known
for name in "$@"; do
    case " $known " in
    *" $name "*) ;;
    *) echo "install_peers.sh: there is no toolkit $name; there are $known" >&2 && exit 2 ;;
    esac
done
constraints=$folder/constraints.txt
grep '^torch==' "$(dirname "$0")/../constraints.txt" > "$constraints" || exit 1
failed=0

install() {
    "$folder/$name/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

install_peer() {
    test -x "$folder/$name/bin/python" || "${PYTHON:-python3}" -m venv "$folder/$name" || return 1
    case $name in
    ctranslate2) install --constraint "$constraints" ctranslate2==4.8.5 numpy ;;
    hugging_face) install --constraint "$constraints" torch transformers==5.24.0 ;;
    # pip 24.1 and later refuse the metadata of omegaconf 2.0, which fairseq needs.
    fairseq) install 'pip<24.1' && install --constraint "$constraints" torch fairseq==0.12.2 ;;
    # aiohttp and importlib_metadata are needed and not declared; JoeyNMT breaks with later versions of sentencepiece.
    eole) install --constraint "$constraints" torch eole==0.6.4 aiohttp ;;
    joeynmt) install --constraint "$constraints" torch joeynmt==2.3.0 importlib_metadata sentencepiece==0.2.0 ;;
    esac
}

for name in "$@"; do
    if [ -e "$folder/$name/.installed" ]; then
        echo "$name: is there"
    elif install_peer > "$folder/$name.log" 2>&1 && touch "$folder/$name/.installed"; then
        echo "$name: installed"
    else
        reason=$(grep -i 'error' "$folder/$name.log" | tail -n 1)
        echo "$name: not installed (see $folder/$name.log): ${reason:-$(tail -n 1 "$folder/$name.log")}" >&2
        failed=1
    fi
done
exit $failed

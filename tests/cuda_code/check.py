#!/usr/bin/env python3
"""Checks the machine code of the CUDA objects that a release build makes.

    tests/cuda_code/check.py                  # build/; fails with a diff or the list of violations
    tests/cuda_code/check.py --update         # rewrites resources.tsv

Checks registers, by the occupancy that they allow, shared memory, stack and local memory of every
kernel against resources.tsv; 128-bit loads and stores where its template arguments promise them; no
local memory; packed conversions in kernels that write 16-bit vectors.

Needs cuobjdump and nvdisasm: the toolkit's, those in PATH, or build/cuda_code (a venv with NVIDIA's
wheels, which the first run makes). Exits with 77, and one line, where there are no objects or no tool.
"""
import argparse
import collections
import difflib
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / 'tests/cuda_code'
TABLE = HERE / 'resources.tsv'
WHEELS = 'nvidia-cuda-cuobjdump==13.2.78', 'nvidia-cuda-nvdisasm==13.2.78'

# sm_90, from the CUDA programming guide: limits of a multiprocessor.
REGISTERS, WARPS, BLOCKS, REGISTER_UNIT = 65536, 64, 32, 256

# Kernels that divide 64-bit integers per element so far: they locate it by strides or windows.
DIVIDE = re.compile(r'(copy_strided|detail:map_strided|interpret|share_out)<')
DIVIDING_FILES = {'ops/gather.cu', 'ops/reduce.cu'}
# Kernels that may use local memory, with the reason.
LOCAL_MEMORY = {
    'ops/chain/pointwise.cu: interpret<': 'the program chooses the registers of its steps',
    'core/tensor/rng.cu: draw<': "normal values: reduction of large angles in CUDA's sincos",
    'ops/norm/batch_norm_backward.cu: backward_x<8, Bf16': '8 bytes, for three blocks a multiprocessor',
    'ops/cross_entropy.cu: forward<double>': 'f64, which no preset trains in',
}

Kernel = collections.namedtuple('Kernel', 'file name registers shared stack local')


def skip(why):
    print(f'skipped: {why}')
    sys.exit(77)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def cuobjdump(build):
    venv = build / 'cuda_code'
    home = os.environ.get('CUDA_HOME', '/usr/local/cuda')
    for attempt in (False, True):
        places = [pathlib.Path(home) / 'bin', *venv.glob('lib/python3*/site-packages/nvidia/*/bin')]
        path = os.pathsep.join([*map(str, places), os.environ['PATH']])
        found = shutil.which('cuobjdump', path=path)
        if found and shutil.which('nvdisasm', path=path):
            os.environ['PATH'] = path  # cuobjdump runs nvdisasm
            return found
        if not attempt:
            try:
                run(sys.executable, '-m', 'venv', str(venv))
                run(str(venv / 'bin/pip'), 'install', '-q', '--no-deps', '--retries', '1',
                    '--timeout', '20', *WHEELS)
            except (subprocess.CalledProcessError, OSError):
                break
    skip(f'no cuobjdump and nvdisasm in the toolkit or in PATH, and PyPI did not give {WHEELS}')


def readable(names):
    """Demangled, without parameters and without the hashes of anonymous namespaces."""
    text = subprocess.run(['c++filt'], input='\n'.join(names), check=True, capture_output=True, text=True).stdout
    short = {}
    for name, line in zip(names, text.splitlines()):
        line = re.sub(r'_GLOBAL__N__\w+|\(anonymous namespace\)|bellows::', '', line).removeprefix('void ')
        line, depth = re.sub(r'(?<![\w>]):+', '', line), 0
        for i, c in enumerate(line):
            depth += (c == '<') - (c == '>' and line[i - 1] != '-')
            if c == '(' and depth == 0 and i:
                line = line[:i]
                break
        short[name] = line
    return short


def resources(tool, file, path):
    found = re.findall(r'Function (\S+):\s*REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)',
                       run(tool, '-res-usage', str(path)))
    short = readable([f[0] for f in found])
    return [Kernel(file, short[n], int(r), int(sh), int(st), int(lo)) for n, r, st, sh, lo in found]


def occupancy(registers, threads=256):
    """Share of a multiprocessor's warps that blocks of `threads` fill, as far as registers allow."""
    of_warp = -(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
    warps = threads // 32
    blocks = min(BLOCKS, WARPS // warps, REGISTERS // of_warp // warps)
    return blocks * warps / WARPS


def table_of(kernels):
    """A row for all instantiations of a kernel that have the same memory and the same occupancy."""
    rows = collections.defaultdict(list)
    for k in kernels:
        alike = k.file, k.name.split('<')[0], f'{occupancy(k.registers):.2f}', k.shared, k.stack, k.local
        rows[alike].append(k.registers)
    lines = ['file\tname\toccupancy_256\tshared\tstack\tlocal\tkernels\tmost_registers']
    lines += ['\t'.join(map(str, (*alike, len(of), max(of)))) for alike, of in sorted(rows.items())]
    return '\n'.join(lines) + '\n'


def code_of(tool, path):
    """Instructions of each kernel: (address, text without its predicate)."""
    kernels, name = {}, None
    for line in run(tool, '-sass', str(path)).splitlines():
        if found := re.search(r'Function : (\S+)', line):
            name = found[1]
            kernels[name] = []
        elif found := re.match(r'\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;', line):
            kernels[name].append((int(found[1], 16), re.sub(r'^@!?U?P\w+\s+', '', found[2])))
    return kernels


def bytes_of(text):
    """Bytes that a global load or store moves per thread."""
    if not re.match(r'(LDG|STG)\b', text):
        return 0
    wide = re.search(r'\.(128|64|U8|S8|U16|S16)\b', text.split()[0])
    return {'128': 16, '64': 8, 'U8': 1, 'S8': 1, 'U16': 2, 'S16': 2}[wide[1]] if wide else 4


def inner_loop(code):
    """Instructions of the loop that moves most bytes of those that contain no other loop that moves
    any, on all of its paths; none without such a loop."""
    loops = []
    for at, text in code:
        found = re.match(r'BRA(?:\.\w+)* (?:\S+, )?`?\(?(?:\.L_x_\d+|0x([0-9a-f]+))', text)
        if found and found[1] and int(found[1], 16) < at:
            body = [t for a, t in code if int(found[1], 16) <= a <= at]
            loops.append((int(found[1], 16), at, body))
    moving = [l for l in loops if any(map(bytes_of, l[2]))]
    innermost = [l for l in moving if not any(o != l and l[0] <= o[0] and o[1] <= l[1] for o in moving)]
    return max((l[2] for l in innermost), key=lambda body: sum(map(bytes_of, body)), default=[])


def faults_of(file, name, code):
    texts = [text for _, text in code]
    has = lambda pattern: any(re.match(pattern, t) for t in texts)
    if has(r'(LDL|STL)\b') and not f'{file}: {name}'.startswith(tuple(LOCAL_MEMORY)):
        yield 'uses local memory'
    # Only division of 64-bit integers converts them so; it is a subroutine outside the loop.
    dividing = file in DIVIDING_FILES or DIVIDE.match(name)
    if not dividing and has(r'I2F\.U64\.RP') and any(re.match(r'CALL\b|I2F\.U64\.RP', t) for t in inner_loop(code)):
        yield 'divides 64-bit integers in its inner loop, or calls another subroutine there'
    # forward_rows<8, Bf16, ...>: 8 elements, 16 bytes, per load; map_packs and AlignedVector alike.
    pieces = re.search(r'<(\d), (float|double|F16|Bf16)\b', name)
    wide = pieces and int(pieces[1]) * {'float': 4, 'double': 8}.get(pieces[2], 2) == 16 or 'map_packs<' in name
    if wide and has(r'LDG\b') and not has(r'LDG\S*\.128'):
        yield 'claims 16 bytes per load, has no LDG.128'
    if wide and re.search(r'\b(Bf16|F16)\b', name) and has(r'STG\S*\.128') and not has(r'F2FP\S*\.PACK_AB'):
        yield 'writes 16-bit vectors without packed conversions (F2FP)'


def examine(tool, file, path):
    """Faults and Kernels of an object."""
    kernels = resources(tool, file, path)
    code = code_of(tool, path) if kernels else {}  # a start of nvdisasm takes a quarter of a second
    short = readable(list(code))
    faults = [f'{file}: {short[n]}: {fault}' for n, body in code.items() for fault in faults_of(file, short[n], body)]
    return faults, kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build')
    parser.add_argument('--update', action='store_true', help='rewrite the table')
    args = parser.parse_args()
    folder = args.build / 'CMakeFiles/bellows_cuda.dir'
    ninja = args.build / 'build.ninja'  # an old build folder also has objects of deleted files
    made = set(re.findall(r'^build (\S+\.cu\.o):', ninja.read_text(), re.M)) if ninja.exists() else None
    objects = {str(p.relative_to(folder)).removesuffix('.o'): p for p in sorted(folder.rglob('*.cu.o'))
               if made is None or str(p.relative_to(args.build)) in made}
    if not objects:
        skip(f'no CUDA objects in {folder}')
    tool = cuobjdump(args.build)

    store = args.build / 'cuda_code.json'  # nvdisasm takes half a minute, so an object is examined once
    try:
        kept = json.loads(store.read_text())
    except (OSError, ValueError):
        kept = {}
    version = run(tool, '--version')
    examined = {}
    for file, path in objects.items():
        inputs = path.read_bytes() + pathlib.Path(__file__).read_bytes() + f'{file} {version}'.encode()
        key = hashlib.sha256(inputs).hexdigest()
        examined[key] = kept.get(key) or examine(tool, file, path)
    fresh = store.with_suffix('.new')
    fresh.write_text(json.dumps(examined))
    fresh.replace(store)
    faults, kernels = (sum(lists, []) for lists in zip(*examined.values()))

    table = table_of([Kernel(*k) for k in kernels])
    if args.update:
        TABLE.write_text(table)
    else:
        known = TABLE.read_text() if TABLE.exists() else ''
        diff = list(difflib.unified_diff(known.splitlines(), table.splitlines(), 'resources.tsv', 'this build', 'as committed', '', 0, ''))
        if diff:
            print('\n'.join(diff), f'\n\n{store} has each kernel; if that is meant: tests/cuda_code/check.py --update', sep='')
            faults.append('the resources of kernels have changed')
    print('\n'.join(faults))
    print(f'{len(objects)} objects, {len(kernels)} kernels, {len(faults)} faults')
    return bool(faults)


if __name__ == '__main__':
    sys.exit(main())

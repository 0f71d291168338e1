#!/usr/bin/env python3
"""Holds the reference's semantics of every operation against NumPy and Python.

    numpy_check.py PATH_OF_op_dump

Nothing here is derived from the C++ code: dtypes are rounded by looking up the table of all values of
the format, integers are Python's, transcendental functions are NumPy's in extended precision, Philox is
written out again. Prints what differs and exits with 1, with 77 (skipped) if there is no NumPy.
"""
import json
import math
import subprocess
import sys
from fractions import Fraction

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed; nothing checked")
    sys.exit(77)

np.seterr(all="ignore")
WIDE = np.longdouble
FLOATS = ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2")
WIDTHS = {"i64": 64, "i32": 32, "i16": 16, "i8": 8, "u8": 8}


# --- Rounding to a dtype, by the values that the format has ---

def positive_values(mantissa, bias, exponents, top):
    """All non-negative finite values of a format in ascending order, `top` of them in the last binade."""
    values = [math.ldexp(f, 1 - bias - mantissa) for f in range(1 << mantissa)]
    for e in range(1, exponents):
        count = top if e == exponents - 1 else 1 << mantissa
        values += [math.ldexp((1 << mantissa) + f, e - bias - mantissa) for f in range(count)]
    return np.array(values)


TABLES = {
    "f16": positive_values(10, 15, 31, 1024),
    "bf16": positive_values(7, 127, 255, 128),
    "f8e4m3": positive_values(3, 7, 16, 7),
    "f8e5m2": positive_values(2, 15, 31, 4),
}


def round_to(dtype, x):
    """Nearest value of the dtype, ties to even, of float64 or wider x; narrow dtypes by way of f32."""
    if dtype == "f64":
        return np.asarray(x, np.float64)
    x = np.asarray(x).astype(np.float32).astype(np.float64)
    if dtype == "f32":
        return x
    table = TABLES[dtype]
    magnitude = np.abs(x)
    above = np.clip(np.searchsorted(table, magnitude), 1, len(table) - 1)
    low, high = table[above - 1], table[above]
    nearer_low = magnitude - low < high - magnitude
    tie_low = (magnitude - low == high - magnitude) & ((above - 1) % 2 == 0)
    result = np.where(nearer_low | tie_low, low, high)
    if dtype in ("f16", "bf16"):
        step = table[-1] - table[-2]
        result = np.where(magnitude >= table[-1] + step / 2, np.inf, result)
    else:
        result = np.where(magnitude > table[-1], table[-1], result)
    if dtype == "f8e5m2":
        result = np.where(np.isinf(x), np.inf, result)
    return np.where(np.isnan(x), np.nan, np.copysign(result, x))


def wrap(dtype, value):
    if dtype == "bool":
        return int(value != 0)
    width = WIDTHS[dtype]
    value &= (1 << width) - 1
    return value - (1 << width) if dtype != "u8" and value >> (width - 1) else value


def cast(x, source, target):
    if target in FLOATS:
        if source in FLOATS:
            return round_to(target, x)
        return round_to(target, x.astype(np.float64 if target == "f64" else np.float32))
    if source not in FLOATS:
        return np.array([wrap(target, int(v)) for v in x.ravel()], np.int64).reshape(x.shape)
    if target == "bool":
        return (x != 0).astype(np.int64)
    low = 0 if target == "u8" else -(1 << (WIDTHS[target] - 1))
    high = low + (1 << WIDTHS[target]) - 1
    def one(v):
        if math.isnan(v):
            return 0
        if math.isinf(v):
            return high if v > 0 else low
        return min(max(math.trunc(v), low), high)
    return np.array([one(v) for v in x.ravel()], np.int64).reshape(x.shape)


# --- Elementwise operations ---

def zero_aware(pick, prefer_negative):
    """minimum or maximum with -0 below +0."""
    def function(a, b):
        both_zero = (a == 0) & (b == 0)
        minus = np.signbit(a) | np.signbit(b) if prefer_negative else np.signbit(a) & np.signbit(b)
        zero = np.where(minus, a.dtype.type(-0.0), a.dtype.type(0.0))
        return np.where(both_zero, zero, pick(a, b))
    return function


minimum, maximum = zero_aware(np.minimum, True), zero_aware(np.maximum, False)
fmin, fmax = zero_aware(np.fmin, True), zero_aware(np.fmax, False)


def remainder(a, b):
    return np.where(np.isnan(a) | np.isnan(b) | np.isinf(a) | (b == 0), a.dtype.type(np.nan),
                    np.remainder(a, b))


# Computed in the compute type itself (float32 or float64 arrays): these must agree in every bit.
EXACT = {
    "neg": lambda a: -a,
    "abs": np.abs,
    "sign": lambda a: np.where(a == 0, a, np.sign(a)),
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floor_divide": lambda a, b: np.where(b == 0, a / b, np.floor_divide(a, b)),
    "fmod": np.fmod,
    "remainder": remainder,
    "square": lambda a: a * a,
    "minimum": minimum,
    "maximum": maximum,
    "fmin": fmin,
    "fmax": fmax,
    "clamp": lambda a, b, c: minimum(maximum(a, b), c),
    "copysign": lambda a, b: np.where(np.isnan(b), np.abs(a), np.copysign(a, b)),
    "reciprocal": lambda a: 1 / a,
    "lerp": lambda a, b, c: a + c * (b - a),
    "heaviside": lambda a, b: np.where(a == 0, b, np.heaviside(a, b)),
    "deg2rad": lambda a: a * a.dtype.type(math.pi / 180),
    "rad2deg": lambda a: a * a.dtype.type(180 / math.pi),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "frac": lambda a: a - np.trunc(a),
    "sqrt": np.sqrt,
    "relu": lambda a: maximum(a, np.zeros_like(a)),
    "leaky_relu": lambda a, b: np.where(a > 0, a, a * b),
    "copy": lambda a: a,
}

COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "signbit": lambda a: np.signbit(a) & ~np.isnan(a),
    "logical_and": lambda a, b: (a != 0) & (b != 0),
    "logical_or": lambda a, b: (a != 0) | (b != 0),
    "logical_xor": lambda a, b: (a != 0) ^ (b != 0),
    "logical_not": lambda a: a == 0,
}


def each(function):
    """A function of Python floats on an array, NaN where it is undefined."""
    def one(x):
        try:
            return function(x)
        except (ValueError, OverflowError):
            return math.nan
    return lambda a: np.array([one(float(x)) for x in a])


def softplus(a):
    return np.where(np.isnan(a), a, np.maximum(a, 0) + np.log1p(np.exp(-np.abs(a))))


def logit(a):
    # log(a) - log(1 - a) loses what cancels around 1/2; there, through atanh(2a - 1).
    middle = (a > 0.25) & (a < 0.75)
    return np.where(middle, 2 * np.arctanh(2 * a - 1), np.log(a) - np.log1p(-a))


# Computed in extended precision; the result may be off by a few units of f64 before it is rounded.
INEXACT = {
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "cbrt": np.cbrt,
    "pow": np.power,
    "hypot": np.hypot,
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda a: np.power(WIDE(10), a),
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "xlogy": lambda a, b: np.where((a == 0) & ~np.isnan(b), WIDE(0), a * np.log(b)),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": each(math.erf),
    "erfc": each(math.erfc),
    "sigmoid": lambda a: np.where(a >= 0, 1 / (1 + np.exp(-a)), np.exp(a) / (1 + np.exp(a))),
    "logit": logit,
    "softplus": softplus,
}


def fma(a, b, c, dtype):
    """a * b + c in integers, rounded once."""
    digits, smallest = (53, -1074) if dtype == "f64" else (24, -149)
    results = []
    for x, y, z in zip(a, b, c):
        if not (math.isfinite(x) and math.isfinite(y)):
            results.append(float(np.float64(x) * np.float64(y) + np.float64(z)))
            continue
        if not math.isfinite(z):
            results.append(z)
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact == 0:
            # Zeros add with their signs; an exact cancellation is +0.
            results.append(x * y + z if x == 0 or y == 0 else 0.0)
            continue
        size = abs(exact)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        if Fraction(2) ** exponent > size:
            exponent -= 1
        quantum = Fraction(2) ** max(exponent - digits + 1, smallest)
        count = round(exact / quantum)  # Ties to even.
        rounded = count * quantum
        limit = Fraction(2) ** (1024 if dtype == "f64" else 128)
        value = math.inf if abs(rounded) >= limit else float(abs(rounded))
        results.append(-value if exact < 0 else value)
    return np.array(results)


def integer_division(a, b):
    if b == 0:
        return 0, 0
    quotient = abs(a) // abs(b)
    quotient = quotient if (a < 0) == (b < 0) else -quotient
    return quotient, a - quotient * b


def shift_right(a, b, width):
    return a >> b if 0 <= b < width else (-1 if a < 0 else 0)


INTEGER = {
    "neg": lambda w, a: -a,
    "abs": lambda w, a: abs(a),
    "sign": lambda w, a: (a > 0) - (a < 0),
    "add": lambda w, a, b: a + b,
    "sub": lambda w, a, b: a - b,
    "mul": lambda w, a, b: a * b,
    "div": lambda w, a, b: integer_division(a, b)[0],
    "floor_divide": lambda w, a, b: a // b if b else 0,
    "fmod": lambda w, a, b: integer_division(a, b)[1],
    "remainder": lambda w, a, b: a % b if b else 0,
    "square": lambda w, a: a * a,
    "minimum": lambda w, a, b: min(a, b),
    "maximum": lambda w, a, b: max(a, b),
    "clamp": lambda w, a, b, c: min(max(a, b), c),
    "relu": lambda w, a: max(a, 0),
    "bitwise_and": lambda w, a, b: a & b,
    "bitwise_or": lambda w, a, b: a | b,
    "bitwise_xor": lambda w, a, b: a ^ b,
    "bitwise_not": lambda w, a: ~a,
    "shift_left": lambda w, a, b: a << b if 0 <= b < w else 0,
    "shift_right": lambda w, a, b: shift_right(a, b, w),
    "popcount": lambda w, a: bin(a & ((1 << w) - 1)).count("1"),
    "clz": lambda w, a: w - (a & ((1 << w) - 1)).bit_length(),
    "copy": lambda w, a: a,
}


# --- Graph-level operations ---

def philox(block, offset, seed):
    mask = 0xFFFFFFFF
    c = [block & mask, block >> 32 & mask, offset & mask, offset >> 32 & mask]
    k = [seed & mask, seed >> 32 & mask]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & mask, p0 >> 32 ^ c[3] ^ k[1], p0 & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


DIGITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8e4m3": 4, "f8e5m2": 3}


def uniform(dtype, seed, offset, i):
    if dtype == "f64":
        lanes = philox(i // 2, offset, seed)[2 * (i % 2):][:2]
        return ((lanes[1] << 32 | lanes[0]) >> 11) / 2 ** 53
    return (philox(i // 4, offset, seed)[i % 4] >> 32 - DIGITS[dtype]) / 2 ** DIGITS[dtype]


def normal(dtype, seed, offset, i):
    if dtype == "f64":
        a, b, c, d = philox(i // 2, offset, seed)
        u, v = WIDE((b << 32 | a) >> 11) + 1, WIDE((d << 32 | c) >> 11)
        scale = WIDE(2) ** 53
    else:
        lanes = philox(i // 4, offset, seed)
        u, v = WIDE(lanes[i % 4 & 2] >> 8) + 1, WIDE(lanes[(i % 4 & 2) + 1] >> 8)
        scale = WIDE(2) ** 24
    turn = v / scale
    wave = np.sin if i % 2 else np.cos
    return np.sqrt(-2 * np.log(u / scale)) * wave(turn * 2 * PI)


PI = WIDE(math.pi) + WIDE(1.2246467991473532e-16)


def total(op, x, axes, in_dtype):
    if in_dtype not in FLOATS:
        function = np.sum if op == "sum" else np.prod
        return function(x.astype(np.int64), axis=axes), None
    w = x.astype(WIDE)
    if op == "prod":
        value = np.prod(w, axis=axes)
        return value, np.abs(value) * x.size * WIDE(2) ** -53
    return np.sum(w, axis=axes), np.sum(np.abs(w), axis=axes) * x.size * WIDE(2) ** -53


def pick(x, index, axis):
    """take_along_axis with Python's negative indices; outside, zero."""
    extent = x.shape[axis]
    at = np.where(index < 0, index + extent, index)
    outside = (at < 0) | (at >= extent)
    return np.where(outside, 0, np.take_along_axis(x, np.where(outside, 0, at), axis))


def graph_case(op, attributes, operands, operand_dtypes, result_types):
    """Expected results as (value, tolerance) pairs; tolerance None for exact ones."""
    axes = tuple(attributes.get("axes", ()))
    x = operands[0] if operands else None
    sizes = attributes.get("sizes")
    dtype, shape = result_types[0]["dtype"], tuple(result_types[0]["shape"])
    literal = attributes.get("value" if dtype in FLOATS else "int_value")
    if op in ("sum", "prod"):
        return [total(op, x, axes, operand_dtypes[0])]
    if op in ("amax", "amin"):
        return [((np.max if op == "amax" else np.min)(x, axis=axes), None)]
    if op in ("any", "all"):
        return [((np.any if op == "any" else np.all)(x != 0, axis=axes).astype(np.int64), None)]
    if op in ("argmax", "argmin"):
        return [((np.argmax if op == "argmax" else np.argmin)(x, axis=axes[0]), None)]
    if op == "welford":
        w = x.astype(WIDE)
        n = int(np.prod([x.shape[a] for a in axes]))
        mean = np.mean(w, axis=axes)
        m2 = np.var(w, axis=axes) * n
        slack = WIDE(2) ** -50 * n
        return [(mean, slack * np.mean(np.abs(w), axis=axes)), (m2, slack * np.abs(m2)),
                (np.full(shape, float(n)), None)]
    if op == "broadcast":
        return [(np.expand_dims(x, axes), None)]
    if op == "reshape":
        return [(x.reshape(sizes), None)]
    if op == "permute":
        return [(np.transpose(x, axes), None)]
    if op == "squeeze":
        return [(np.squeeze(x, axes), None)]
    if op == "expand":
        return [(np.broadcast_to(x, sizes), None)]
    if op == "flip":
        return [(np.flip(x, axes), None)]
    if op == "slice":
        parts = zip(attributes["start"], attributes["stop"], attributes["step"])
        return [(x[tuple(slice(a, b, c) for a, b, c in parts)], None)]
    if op == "pad":
        widths = list(zip(attributes["start"], attributes["stop"]))
        return [(np.pad(x, widths, constant_values=literal), None)]
    if op == "cat":
        return [(np.concatenate(operands, axes[0]), None)]
    if op == "gather":
        return [(pick(x, operands[1], axes[0]), None)]
    if op == "index_select":
        index_shape = [1] * x.ndim
        index_shape[axes[0]] = -1
        whole = np.broadcast_to(operands[1].reshape(index_shape), shape)
        return [(pick(x, whole, axes[0]), None)]
    if op == "segment_set":
        return [(x, None)]
    if op == "full":
        return [(np.full(sizes, x), None)]
    if op == "matmul":
        w = [o.astype(WIDE) for o in operands]
        tolerance = np.matmul(np.abs(w[0]), np.abs(w[1])) * w[0].shape[-1] * WIDE(2) ** -53
        return [(np.matmul(w[0], w[1]), tolerance)]
    if op == "constant":
        value = np.asarray(literal)
        return [(round_to(dtype, value) if dtype in FLOATS else value, None)]
    if op in ("iota", "size"):
        if op == "size":
            value = np.asarray(sizes[0])
        else:
            counting = [1] * len(sizes)
            counting[axes[0]] = -1
            value = np.broadcast_to(np.arange(sizes[axes[0]]).reshape(counting), sizes)
        return [(cast(np.asarray(value, np.int64), "i64", dtype), None)]
    if op in ("random_uniform", "random_normal"):
        seed, offset = (int(o) & (1 << 64) - 1 for o in operands)
        count = int(np.prod(shape))
        if op == "random_uniform":
            return [(np.array([uniform(dtype, seed, offset, i) for i in range(count)]).reshape(shape), None)]
        value = np.array([normal(dtype, seed, offset, i) for i in range(count)]).reshape(shape)
        return [(value, np.abs(value) * WIDE(2) ** -50)]
    return None


# --- Comparison ---

def same(got, want):
    if got.dtype != np.float64:
        return got == want
    return ((got == want) & ((got != 0) | (np.signbit(got) == np.signbit(want)))) | \
        (np.isnan(got) & np.isnan(want))


def within(dtype, got, exact, tolerance):
    """Whether `got` is what some value within the tolerance rounds to."""
    exact = np.asarray(exact, WIDE)
    tolerance = np.where(np.isfinite(exact), np.asarray(tolerance, WIDE), 0)
    low, high = round_to(dtype, exact - tolerance), round_to(dtype, exact + tolerance)
    ok = (got >= low) & (got <= high)
    return ok | (np.isnan(got) & np.isnan(np.asarray(exact, np.float64)))


class Report:
    def __init__(self):
        self.wrong = 0
        self.checked = {}

    def add(self, name, ok, got, want, operands):
        self.checked[name.split(".")[0]] = self.checked.get(name.split(".")[0], 0) + ok.size
        if ok.all():
            return
        self.wrong += 1
        bad = np.argwhere(~ok)
        print(f"{name}: {len(bad)} of {ok.size} differ")
        for at in map(tuple, bad[:5]):
            shown = [repr(o[at]) for o in operands if o.shape == ok.shape]
            print(f"  at {at} operands {', '.join(shown)}: got {got[at]!r}, NumPy {want[at]!r}")


def check_elementwise(report, op, operands, dtypes, out, got):
    source = dtypes[-1]
    name = f"{op}.{source}" + (f".{out}" if op == "cast" else "")
    if op == "cast":
        want = cast(operands[0], source, out)
        report.add(name, same(got, want), got, want, operands)
    elif op == "where":
        want = np.where(operands[0] != 0, operands[1], operands[2])
        report.add(name, same(got, want), got, want, operands)
    elif op in COMPARE:
        want = COMPARE[op](*operands).astype(np.int64)
        report.add(name, same(got, want), got, want, operands)
    elif source not in FLOATS:
        width = WIDTHS.get(source, 1)
        want = np.array([wrap(source, int(INTEGER[op](width, *map(int, values))))
                         for values in zip(*operands)], np.int64)
        report.add(name, same(got, want), got, want, operands)
    elif op == "fma":
        want = round_to(source, fma(*operands, source))
        report.add(name, same(got, want), got, want, operands)
    elif op in EXACT:
        compute = np.float64 if source == "f64" else np.float32
        want = round_to(source, EXACT[op](*(o.astype(compute) for o in operands)).astype(np.float64))
        report.add(name, same(got, want), got, want, operands)
    else:
        want = INEXACT[op](*(o.astype(WIDE) for o in operands))
        want = np.asarray(want, WIDE)
        # A few units of f64, or of its smallest subnormal.
        tolerance = np.abs(want) * WIDE(2) ** -50 + WIDE(2) ** -1073
        report.add(name, within(source, got, want, tolerance), got, want, operands)


def main():
    data = subprocess.run([sys.argv[1]], stdout=subprocess.PIPE, check=True).stdout
    report = Report()
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        case = json.loads(data[at:end])
        at = end + 1
        arrays = []
        for kind in case["operands"] + case["results"]:
            count = int(np.prod(kind["shape"]))
            element = np.float64 if kind["dtype"] in FLOATS else np.int64
            arrays.append(np.frombuffer(data, element, count, at).reshape(kind["shape"]))
            at += 8 * count
        operands, results = arrays[:len(case["operands"])], arrays[len(case["operands"]):]
        dtypes = [o["dtype"] for o in case["operands"]]
        op, out = case["op"], case["results"][0]["dtype"]
        expected = graph_case(op, case["attributes"], operands, dtypes, case["results"])
        if expected is None:
            check_elementwise(report, op, operands, dtypes, out, results[0])
            continue
        name = f"{op}.{dtypes[0] if dtypes else out}.{case['attributes']}"
        for got, kind, (want, tolerance) in zip(results, case["results"], expected):
            want = np.asarray(want)
            if got.shape != want.shape:
                report.add(name, np.zeros(1, bool), np.array([got.shape]), np.array([want.shape]), [])
            elif tolerance is None:
                ok = (got == want) | (np.isnan(got) & np.isnan(want)) if got.dtype == np.float64 else got == want
                report.add(name, np.asarray(ok), got, want, operands)
            else:
                report.add(name, np.asarray(within(kind["dtype"], got, want, tolerance)), got, want, operands)
    print(f"{len(report.checked)} operations, {sum(report.checked.values())} values, "
          f"{report.wrong} cases differ")
    return 1 if report.wrong or len(report.checked) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())

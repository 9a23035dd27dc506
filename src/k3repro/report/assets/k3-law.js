/* Laws as data, evaluated as k3repro.capacity.evaluate does it: doubles, from left to right, the same bits.
   A tree is a number, ["var", name] or [operator, ...]. What has no finite value throws. */
(() => {
  "use strict";
  const BITS = 256n, DIGITS = 400n, FAR = 1000n << BITS, MOST_DEPTH = 64;
  const fail = (why) => { throw new RangeError(why); };

  // x as [mantissa, exponent]: x = mantissa * 2 ** (exponent - 53), |mantissa| in [2^52, 2^53), as math.frexp has it.
  const parts = (x) => {
    if (x === 0) return [0n, 0];
    const small = Math.abs(x) < 2 ** -1000, view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, small ? x * 2 ** 100 : x);
    const bits = view.getBigUint64(0), mantissa = (bits & (2n ** 52n - 1n)) | 2n ** 52n;
    return [x < 0 ? -mantissa : mantissa, Number((bits >> 52n) & 2047n) - 1022 - (small ? 100 : 0)];
  };
  const shifted = (value, by) => (by > 0 ? value << BigInt(by) : value >> BigInt(-by));

  // exp, log and pow in 256-bit fixed point, rounded once by the decimal parser: capacity/_elementary.py.
  const scaled = (fixed, x) => {
    const [mantissa, exponent] = parts(x), product = fixed * mantissa;
    if (exponent - 53 > 1100) return product === 0n ? 0n : product > 0n ? 2n * FAR : -2n * FAR;
    return shifted(product, exponent - 53);
  };
  const atanh = (ratio) => {
    const square = ratio * ratio >> BITS;
    let total = 0n;
    for (let term = ratio, n = 1n; term; term = term * square >> BITS, n += 2n) total += term / n;
    return total;
  };
  const LN2 = 2n * atanh((1n << BITS) / 3n);
  const ln = (x) => {
    const [mantissa, exponent] = parts(x), one = 2n ** 52n;
    return 2n * atanh(((mantissa - one) << BITS) / (mantissa + one)) + BigInt(exponent - 1) * LN2;
  };
  const rounded = (mantissa, exponent) => {
    const digits = shifted((mantissa < 0n ? -mantissa : mantissa) * 10n ** DIGITS, exponent);
    return Number(`${mantissa < 0n ? "-" : ""}${digits}e-${DIGITS}`);
  };
  const power = (fixed) => {
    if (fixed > FAR) fail("beyond the largest double");
    if (fixed < -FAR) return 0;
    const twos = (fixed < 0n ? fixed - LN2 + 1n : fixed) / LN2, rest = fixed - twos * LN2;
    let total = 0n;
    for (let term = 1n << BITS, n = 1n; term; term = (term * rest >> BITS) / n, n += 1n) total += term;
    return rounded(total, Number(twos - BITS));
  };
  const log = (x) => (x > 0 ? rounded(ln(x), -Number(BITS)) : fail("a logarithm of a number that is not positive"));
  const pow = (x, y) => {
    if (y === 0) return 1;
    if (x === 0) return y < 0 ? fail("a negative power of zero") : 0;
    if (x < 0 && !Number.isInteger(y)) fail("a broken power of a negative number");
    const value = power(scaled(ln(Math.abs(x)), y));
    return x < 0 && y % 2 !== 0 ? -value : value;
  };

  const fold = (step) => (...values) => values.reduce(step);
  // name -> least arguments, most arguments, function; + 0 turns a negative zero round, as Python's integers do.
  const OPERATIONS = new Map(Object.entries({
    "+": [1, Infinity, fold((a, b) => a + b)],
    "-": [1, 2, (...values) => (values.length === 1 ? -values[0] : values[0] - values[1])],
    "*": [1, Infinity, fold((a, b) => a * b)],
    "/": [2, 2, (a, b) => (b === 0 ? fail("division by zero") : a / b)],
    "min": [1, Infinity, fold((a, b) => (b < a ? b : a))],
    "max": [1, Infinity, fold((a, b) => (b > a ? b : a))],
    "floor": [1, 1, (a) => Math.floor(a) + 0],
    "ceil": [1, 1, (a) => Math.ceil(a) + 0],
    "pow": [2, 2, pow],
    "log": [1, 1, log],
    "exp": [1, 1, (a) => power(scaled(1n << BITS, a))],
  }));

  const finite = (value) => (Number.isFinite(value) ? value : fail("no finite value"));
  const evaluate = (tree, variables, depth = 0) => {
    if (typeof tree === "number") return finite(tree);
    if (depth > MOST_DEPTH || !Array.isArray(tree) || !tree.length) fail("not a formula tree");
    const [head, ...given] = tree;
    if (head === "var") {
      if (given.length !== 1 || !Object.hasOwn(variables, given[0])) fail(`the formula needs ${given[0]}`);
      return finite(Number(variables[given[0]]));
    }
    const [least, most, step] = OPERATIONS.get(head) || fail(`unknown operator ${head}`);
    if (given.length < least || given.length > most) fail(`operator ${head} does not take ${given.length} arguments`);
    return finite(step(...given.map((item) => evaluate(item, variables, depth + 1))));
  };

  globalThis.k3Law = Object.freeze({ evaluate });
})();

// Made by scripts/generate-ops.mjs from libtorch's own schemas; do not edit.
import { begin, callMany, callTensor, callVoid, putDType, putFlag, putFlags, putNumber, putNumbers, putScalar, putString, putTensor, putTensors, resolve } from '../door.js';
import type { DType } from '../dtype.js';
import type { Tensor } from '../tensor.js';

/** `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor` */
export function add_Tensor(self: Tensor, other: Tensor, alpha?: number | boolean): Tensor {
  const handle = (handle_add_Tensor ??= resolve('aten::add.Tensor'));
  begin();
  let provided = 3;
  putTensor(self);
  putTensor(other);
  if (alpha !== undefined) {
    provided += 4;
    putScalar(alpha);
  }
  return callTensor(handle, provided);
}
let handle_add_Tensor: number | undefined;

/** `aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor` */
export function add_Scalar(self: Tensor, other: number | boolean, alpha?: number | boolean): Tensor {
  const handle = (handle_add_Scalar ??= resolve('aten::add.Scalar'));
  begin();
  let provided = 3;
  putTensor(self);
  putScalar(other);
  if (alpha !== undefined) {
    provided += 4;
    putScalar(alpha);
  }
  return callTensor(handle, provided);
}
let handle_add_Scalar: number | undefined;

/** `aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)` */
export function add__Tensor(self: Tensor, other: Tensor, alpha?: number | boolean): Tensor {
  const handle = (handle_add__Tensor ??= resolve('aten::add_.Tensor'));
  begin();
  let provided = 3;
  putTensor(self);
  putTensor(other);
  if (alpha !== undefined) {
    provided += 4;
    putScalar(alpha);
  }
  callVoid(handle, provided);
  return self;
}
let handle_add__Tensor: number | undefined;

/** `aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)` */
export function add__Scalar(self: Tensor, other: number | boolean, alpha?: number | boolean): Tensor {
  const handle = (handle_add__Scalar ??= resolve('aten::add_.Scalar'));
  begin();
  let provided = 3;
  putTensor(self);
  putScalar(other);
  if (alpha !== undefined) {
    provided += 4;
    putScalar(alpha);
  }
  callVoid(handle, provided);
  return self;
}
let handle_add__Scalar: number | undefined;

/** `aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor` */
export function sub_Tensor(self: Tensor, other: Tensor, alpha?: number | boolean): Tensor {
  const handle = (handle_sub_Tensor ??= resolve('aten::sub.Tensor'));
  begin();
  let provided = 3;
  putTensor(self);
  putTensor(other);
  if (alpha !== undefined) {
    provided += 4;
    putScalar(alpha);
  }
  return callTensor(handle, provided);
}
let handle_sub_Tensor: number | undefined;

/** `aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor` */
export function sub_Scalar(self: Tensor, other: number | boolean, alpha?: number | boolean): Tensor {
  const handle = (handle_sub_Scalar ??= resolve('aten::sub.Scalar'));
  begin();
  let provided = 3;
  putTensor(self);
  putScalar(other);
  if (alpha !== undefined) {
    provided += 4;
    putScalar(alpha);
  }
  return callTensor(handle, provided);
}
let handle_sub_Scalar: number | undefined;

/** `aten::sub_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)` */
export function sub__Tensor(self: Tensor, other: Tensor, alpha?: number | boolean): Tensor {
  const handle = (handle_sub__Tensor ??= resolve('aten::sub_.Tensor'));
  begin();
  let provided = 3;
  putTensor(self);
  putTensor(other);
  if (alpha !== undefined) {
    provided += 4;
    putScalar(alpha);
  }
  callVoid(handle, provided);
  return self;
}
let handle_sub__Tensor: number | undefined;

/** `aten::sub_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)` */
export function sub__Scalar(self: Tensor, other: number | boolean, alpha?: number | boolean): Tensor {
  const handle = (handle_sub__Scalar ??= resolve('aten::sub_.Scalar'));
  begin();
  let provided = 3;
  putTensor(self);
  putScalar(other);
  if (alpha !== undefined) {
    provided += 4;
    putScalar(alpha);
  }
  callVoid(handle, provided);
  return self;
}
let handle_sub__Scalar: number | undefined;

/** `aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor` */
export function rsub_Scalar(self: Tensor, other: number | boolean, alpha?: number | boolean): Tensor {
  const handle = (handle_rsub_Scalar ??= resolve('aten::rsub.Scalar'));
  begin();
  let provided = 3;
  putTensor(self);
  putScalar(other);
  if (alpha !== undefined) {
    provided += 4;
    putScalar(alpha);
  }
  return callTensor(handle, provided);
}
let handle_rsub_Scalar: number | undefined;

/** `aten::mul.Tensor(Tensor self, Tensor other) -> Tensor` */
export function mul_Tensor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_mul_Tensor ??= resolve('aten::mul.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_mul_Tensor: number | undefined;

/** `aten::mul.Scalar(Tensor self, Scalar other) -> Tensor` */
export function mul_Scalar(self: Tensor, other: number | boolean): Tensor {
  const handle = (handle_mul_Scalar ??= resolve('aten::mul.Scalar'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(other);
  return callTensor(handle, provided);
}
let handle_mul_Scalar: number | undefined;

/** `aten::mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)` */
export function mul__Tensor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_mul__Tensor ??= resolve('aten::mul_.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  callVoid(handle, provided);
  return self;
}
let handle_mul__Tensor: number | undefined;

/** `aten::mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)` */
export function mul__Scalar(self: Tensor, other: number | boolean): Tensor {
  const handle = (handle_mul__Scalar ??= resolve('aten::mul_.Scalar'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(other);
  callVoid(handle, provided);
  return self;
}
let handle_mul__Scalar: number | undefined;

/** `aten::div.Tensor(Tensor self, Tensor other) -> Tensor` */
export function div_Tensor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_div_Tensor ??= resolve('aten::div.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_div_Tensor: number | undefined;

/** `aten::div.Scalar(Tensor self, Scalar other) -> Tensor` */
export function div_Scalar(self: Tensor, other: number | boolean): Tensor {
  const handle = (handle_div_Scalar ??= resolve('aten::div.Scalar'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(other);
  return callTensor(handle, provided);
}
let handle_div_Scalar: number | undefined;

/** `aten::div_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)` */
export function div__Tensor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_div__Tensor ??= resolve('aten::div_.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  callVoid(handle, provided);
  return self;
}
let handle_div__Tensor: number | undefined;

/** `aten::div_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)` */
export function div__Scalar(self: Tensor, other: number | boolean): Tensor {
  const handle = (handle_div__Scalar ??= resolve('aten::div_.Scalar'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(other);
  callVoid(handle, provided);
  return self;
}
let handle_div__Scalar: number | undefined;

/** `aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor` */
export function div_Tensor_mode(self: Tensor, other: Tensor, roundingMode?: string | null): Tensor {
  const handle = (handle_div_Tensor_mode ??= resolve('aten::div.Tensor_mode'));
  begin();
  let provided = 3;
  putTensor(self);
  putTensor(other);
  if (roundingMode !== undefined) {
    provided += 4;
    roundingMode === null ? putFlag(false) : (putFlag(true), putString(roundingMode));
  }
  return callTensor(handle, provided);
}
let handle_div_Tensor_mode: number | undefined;

/** `aten::div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor` */
export function div_Scalar_mode(self: Tensor, other: number | boolean, roundingMode?: string | null): Tensor {
  const handle = (handle_div_Scalar_mode ??= resolve('aten::div.Scalar_mode'));
  begin();
  let provided = 3;
  putTensor(self);
  putScalar(other);
  if (roundingMode !== undefined) {
    provided += 4;
    roundingMode === null ? putFlag(false) : (putFlag(true), putString(roundingMode));
  }
  return callTensor(handle, provided);
}
let handle_div_Scalar_mode: number | undefined;

/** `aten::remainder.Scalar(Tensor self, Scalar other) -> Tensor` */
export function remainder_Scalar(self: Tensor, other: number | boolean): Tensor {
  const handle = (handle_remainder_Scalar ??= resolve('aten::remainder.Scalar'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(other);
  return callTensor(handle, provided);
}
let handle_remainder_Scalar: number | undefined;

/** `aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor` */
export function remainder_Tensor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_remainder_Tensor ??= resolve('aten::remainder.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_remainder_Tensor: number | undefined;

/** `aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor` */
export function pow_Tensor_Scalar(self: Tensor, exponent: number | boolean): Tensor {
  const handle = (handle_pow_Tensor_Scalar ??= resolve('aten::pow.Tensor_Scalar'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(exponent);
  return callTensor(handle, provided);
}
let handle_pow_Tensor_Scalar: number | undefined;

/** `aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor` */
export function pow_Tensor_Tensor(self: Tensor, exponent: Tensor): Tensor {
  const handle = (handle_pow_Tensor_Tensor ??= resolve('aten::pow.Tensor_Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(exponent);
  return callTensor(handle, provided);
}
let handle_pow_Tensor_Tensor: number | undefined;

/** `aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor` */
export function pow_Scalar(self: number | boolean, exponent: Tensor): Tensor {
  const handle = (handle_pow_Scalar ??= resolve('aten::pow.Scalar'));
  begin();
  const provided = 3;
  putScalar(self);
  putTensor(exponent);
  return callTensor(handle, provided);
}
let handle_pow_Scalar: number | undefined;

/** `aten::neg(Tensor self) -> Tensor` */
export function neg(self: Tensor): Tensor {
  const handle = (handle_neg ??= resolve('aten::neg'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_neg: number | undefined;

/** `aten::abs(Tensor self) -> Tensor` */
export function abs(self: Tensor): Tensor {
  const handle = (handle_abs ??= resolve('aten::abs'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_abs: number | undefined;

/** `aten::sign(Tensor self) -> Tensor` */
export function sign(self: Tensor): Tensor {
  const handle = (handle_sign ??= resolve('aten::sign'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_sign: number | undefined;

/** `aten::exp(Tensor self) -> Tensor` */
export function exp(self: Tensor): Tensor {
  const handle = (handle_exp ??= resolve('aten::exp'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_exp: number | undefined;

/** `aten::exp_(Tensor(a!) self) -> Tensor(a!)` */
export function exp_(self: Tensor): Tensor {
  const handle = (handle_exp_ ??= resolve('aten::exp_'));
  begin();
  const provided = 1;
  putTensor(self);
  callVoid(handle, provided);
  return self;
}
let handle_exp_: number | undefined;

/** `aten::expm1(Tensor self) -> Tensor` */
export function expm1(self: Tensor): Tensor {
  const handle = (handle_expm1 ??= resolve('aten::expm1'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_expm1: number | undefined;

/** `aten::log(Tensor self) -> Tensor` */
export function log(self: Tensor): Tensor {
  const handle = (handle_log ??= resolve('aten::log'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_log: number | undefined;

/** `aten::log1p(Tensor self) -> Tensor` */
export function log1p(self: Tensor): Tensor {
  const handle = (handle_log1p ??= resolve('aten::log1p'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_log1p: number | undefined;

/** `aten::log2(Tensor self) -> Tensor` */
export function log2(self: Tensor): Tensor {
  const handle = (handle_log2 ??= resolve('aten::log2'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_log2: number | undefined;

/** `aten::sqrt(Tensor self) -> Tensor` */
export function sqrt(self: Tensor): Tensor {
  const handle = (handle_sqrt ??= resolve('aten::sqrt'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_sqrt: number | undefined;

/** `aten::rsqrt(Tensor self) -> Tensor` */
export function rsqrt(self: Tensor): Tensor {
  const handle = (handle_rsqrt ??= resolve('aten::rsqrt'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_rsqrt: number | undefined;

/** `aten::square(Tensor self) -> Tensor` */
export function square(self: Tensor): Tensor {
  const handle = (handle_square ??= resolve('aten::square'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_square: number | undefined;

/** `aten::reciprocal(Tensor self) -> Tensor` */
export function reciprocal(self: Tensor): Tensor {
  const handle = (handle_reciprocal ??= resolve('aten::reciprocal'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_reciprocal: number | undefined;

/** `aten::sin(Tensor self) -> Tensor` */
export function sin(self: Tensor): Tensor {
  const handle = (handle_sin ??= resolve('aten::sin'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_sin: number | undefined;

/** `aten::cos(Tensor self) -> Tensor` */
export function cos(self: Tensor): Tensor {
  const handle = (handle_cos ??= resolve('aten::cos'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_cos: number | undefined;

/** `aten::tanh(Tensor self) -> Tensor` */
export function tanh(self: Tensor): Tensor {
  const handle = (handle_tanh ??= resolve('aten::tanh'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_tanh: number | undefined;

/** `aten::sigmoid(Tensor self) -> Tensor` */
export function sigmoid(self: Tensor): Tensor {
  const handle = (handle_sigmoid ??= resolve('aten::sigmoid'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_sigmoid: number | undefined;

/** `aten::log_sigmoid(Tensor self) -> Tensor` */
export function log_sigmoid(self: Tensor): Tensor {
  const handle = (handle_log_sigmoid ??= resolve('aten::log_sigmoid'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_log_sigmoid: number | undefined;

/** `aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor` */
export function softplus(self: Tensor, beta?: number | boolean, threshold?: number | boolean): Tensor {
  const handle = (handle_softplus ??= resolve('aten::softplus'));
  begin();
  let provided = 1;
  putTensor(self);
  if (beta !== undefined) {
    provided += 2;
    putScalar(beta);
  }
  if (threshold !== undefined) {
    provided += 4;
    putScalar(threshold);
  }
  return callTensor(handle, provided);
}
let handle_softplus: number | undefined;

/** `aten::relu(Tensor self) -> Tensor` */
export function relu(self: Tensor): Tensor {
  const handle = (handle_relu ??= resolve('aten::relu'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_relu: number | undefined;

/** `aten::silu(Tensor self) -> Tensor` */
export function silu(self: Tensor): Tensor {
  const handle = (handle_silu ??= resolve('aten::silu'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_silu: number | undefined;

/** `aten::silu_(Tensor(a!) self) -> Tensor(a!)` */
export function silu_(self: Tensor): Tensor {
  const handle = (handle_silu_ ??= resolve('aten::silu_'));
  begin();
  const provided = 1;
  putTensor(self);
  callVoid(handle, provided);
  return self;
}
let handle_silu_: number | undefined;

/** `aten::gelu(Tensor self, *, str approximate="none") -> Tensor` */
export function gelu(self: Tensor, approximate?: string): Tensor {
  const handle = (handle_gelu ??= resolve('aten::gelu'));
  begin();
  let provided = 1;
  putTensor(self);
  if (approximate !== undefined) {
    provided += 2;
    putString(approximate);
  }
  return callTensor(handle, provided);
}
let handle_gelu: number | undefined;

/** `aten::erf(Tensor self) -> Tensor` */
export function erf(self: Tensor): Tensor {
  const handle = (handle_erf ??= resolve('aten::erf'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_erf: number | undefined;

/** `aten::floor(Tensor self) -> Tensor` */
export function floor(self: Tensor): Tensor {
  const handle = (handle_floor ??= resolve('aten::floor'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_floor: number | undefined;

/** `aten::ceil(Tensor self) -> Tensor` */
export function ceil(self: Tensor): Tensor {
  const handle = (handle_ceil ??= resolve('aten::ceil'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_ceil: number | undefined;

/** `aten::round(Tensor self) -> Tensor` */
export function round(self: Tensor): Tensor {
  const handle = (handle_round ??= resolve('aten::round'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_round: number | undefined;

/** `aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor` */
export function clamp(self: Tensor, min?: number | boolean | null, max?: number | boolean | null): Tensor {
  const handle = (handle_clamp ??= resolve('aten::clamp'));
  begin();
  let provided = 1;
  putTensor(self);
  if (min !== undefined) {
    provided += 2;
    min === null ? putFlag(false) : (putFlag(true), putScalar(min));
  }
  if (max !== undefined) {
    provided += 4;
    max === null ? putFlag(false) : (putFlag(true), putScalar(max));
  }
  return callTensor(handle, provided);
}
let handle_clamp: number | undefined;

/** `aten::clamp_(Tensor(a!) self, Scalar? min=None, Scalar? max=None) -> Tensor(a!)` */
export function clamp_(self: Tensor, min?: number | boolean | null, max?: number | boolean | null): Tensor {
  const handle = (handle_clamp_ ??= resolve('aten::clamp_'));
  begin();
  let provided = 1;
  putTensor(self);
  if (min !== undefined) {
    provided += 2;
    min === null ? putFlag(false) : (putFlag(true), putScalar(min));
  }
  if (max !== undefined) {
    provided += 4;
    max === null ? putFlag(false) : (putFlag(true), putScalar(max));
  }
  callVoid(handle, provided);
  return self;
}
let handle_clamp_: number | undefined;

/** `aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor` */
export function clamp_Tensor(self: Tensor, min?: Tensor | null, max?: Tensor | null): Tensor {
  const handle = (handle_clamp_Tensor ??= resolve('aten::clamp.Tensor'));
  begin();
  let provided = 1;
  putTensor(self);
  if (min !== undefined) {
    provided += 2;
    putTensor(min);
  }
  if (max !== undefined) {
    provided += 4;
    putTensor(max);
  }
  return callTensor(handle, provided);
}
let handle_clamp_Tensor: number | undefined;

/** `aten::clamp_min(Tensor self, Scalar min) -> Tensor` */
export function clamp_min(self: Tensor, min: number | boolean): Tensor {
  const handle = (handle_clamp_min ??= resolve('aten::clamp_min'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(min);
  return callTensor(handle, provided);
}
let handle_clamp_min: number | undefined;

/** `aten::clamp_max(Tensor self, Scalar max) -> Tensor` */
export function clamp_max(self: Tensor, max: number | boolean): Tensor {
  const handle = (handle_clamp_max ??= resolve('aten::clamp_max'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(max);
  return callTensor(handle, provided);
}
let handle_clamp_max: number | undefined;

/** `aten::minimum(Tensor self, Tensor other) -> Tensor` */
export function minimum(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_minimum ??= resolve('aten::minimum'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_minimum: number | undefined;

/** `aten::maximum(Tensor self, Tensor other) -> Tensor` */
export function maximum(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_maximum ??= resolve('aten::maximum'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_maximum: number | undefined;

/** `aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor` */
export function lerp_Scalar(self: Tensor, end: Tensor, weight: number | boolean): Tensor {
  const handle = (handle_lerp_Scalar ??= resolve('aten::lerp.Scalar'));
  begin();
  const provided = 7;
  putTensor(self);
  putTensor(end);
  putScalar(weight);
  return callTensor(handle, provided);
}
let handle_lerp_Scalar: number | undefined;

/** `aten::lerp_.Scalar(Tensor(a!) self, Tensor end, Scalar weight) -> Tensor(a!)` */
export function lerp__Scalar(self: Tensor, end: Tensor, weight: number | boolean): Tensor {
  const handle = (handle_lerp__Scalar ??= resolve('aten::lerp_.Scalar'));
  begin();
  const provided = 7;
  putTensor(self);
  putTensor(end);
  putScalar(weight);
  callVoid(handle, provided);
  return self;
}
let handle_lerp__Scalar: number | undefined;

/** `aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor` */
export function addcmul(self: Tensor, tensor1: Tensor, tensor2: Tensor, value?: number | boolean): Tensor {
  const handle = (handle_addcmul ??= resolve('aten::addcmul'));
  begin();
  let provided = 7;
  putTensor(self);
  putTensor(tensor1);
  putTensor(tensor2);
  if (value !== undefined) {
    provided += 8;
    putScalar(value);
  }
  return callTensor(handle, provided);
}
let handle_addcmul: number | undefined;

/** `aten::addcmul_(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor(a!)` */
export function addcmul_(self: Tensor, tensor1: Tensor, tensor2: Tensor, value?: number | boolean): Tensor {
  const handle = (handle_addcmul_ ??= resolve('aten::addcmul_'));
  begin();
  let provided = 7;
  putTensor(self);
  putTensor(tensor1);
  putTensor(tensor2);
  if (value !== undefined) {
    provided += 8;
    putScalar(value);
  }
  callVoid(handle, provided);
  return self;
}
let handle_addcmul_: number | undefined;

/** `aten::addcdiv_(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor(a!)` */
export function addcdiv_(self: Tensor, tensor1: Tensor, tensor2: Tensor, value?: number | boolean): Tensor {
  const handle = (handle_addcdiv_ ??= resolve('aten::addcdiv_'));
  begin();
  let provided = 7;
  putTensor(self);
  putTensor(tensor1);
  putTensor(tensor2);
  if (value !== undefined) {
    provided += 8;
    putScalar(value);
  }
  callVoid(handle, provided);
  return self;
}
let handle_addcdiv_: number | undefined;

/** `aten::isnan(Tensor self) -> Tensor` */
export function isnan(self: Tensor): Tensor {
  const handle = (handle_isnan ??= resolve('aten::isnan'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_isnan: number | undefined;

/** `aten::isinf(Tensor self) -> Tensor` */
export function isinf(self: Tensor): Tensor {
  const handle = (handle_isinf ??= resolve('aten::isinf'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_isinf: number | undefined;

/** `aten::isfinite(Tensor self) -> Tensor` */
export function isfinite(self: Tensor): Tensor {
  const handle = (handle_isfinite ??= resolve('aten::isfinite'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_isfinite: number | undefined;

/** `aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor` */
export function nan_to_num(self: Tensor, nan?: number | null, posinf?: number | null, neginf?: number | null): Tensor {
  const handle = (handle_nan_to_num ??= resolve('aten::nan_to_num'));
  begin();
  let provided = 1;
  putTensor(self);
  if (nan !== undefined) {
    provided += 2;
    nan === null ? putFlag(false) : (putFlag(true), putNumber(nan));
  }
  if (posinf !== undefined) {
    provided += 4;
    posinf === null ? putFlag(false) : (putFlag(true), putNumber(posinf));
  }
  if (neginf !== undefined) {
    provided += 8;
    neginf === null ? putFlag(false) : (putFlag(true), putNumber(neginf));
  }
  return callTensor(handle, provided);
}
let handle_nan_to_num: number | undefined;

/** `aten::eq.Tensor(Tensor self, Tensor other) -> Tensor` */
export function eq_Tensor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_eq_Tensor ??= resolve('aten::eq.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_eq_Tensor: number | undefined;

/** `aten::eq.Scalar(Tensor self, Scalar other) -> Tensor` */
export function eq_Scalar(self: Tensor, other: number | boolean): Tensor {
  const handle = (handle_eq_Scalar ??= resolve('aten::eq.Scalar'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(other);
  return callTensor(handle, provided);
}
let handle_eq_Scalar: number | undefined;

/** `aten::ne.Tensor(Tensor self, Tensor other) -> Tensor` */
export function ne_Tensor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_ne_Tensor ??= resolve('aten::ne.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_ne_Tensor: number | undefined;

/** `aten::ne.Scalar(Tensor self, Scalar other) -> Tensor` */
export function ne_Scalar(self: Tensor, other: number | boolean): Tensor {
  const handle = (handle_ne_Scalar ??= resolve('aten::ne.Scalar'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(other);
  return callTensor(handle, provided);
}
let handle_ne_Scalar: number | undefined;

/** `aten::lt.Tensor(Tensor self, Tensor other) -> Tensor` */
export function lt_Tensor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_lt_Tensor ??= resolve('aten::lt.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_lt_Tensor: number | undefined;

/** `aten::lt.Scalar(Tensor self, Scalar other) -> Tensor` */
export function lt_Scalar(self: Tensor, other: number | boolean): Tensor {
  const handle = (handle_lt_Scalar ??= resolve('aten::lt.Scalar'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(other);
  return callTensor(handle, provided);
}
let handle_lt_Scalar: number | undefined;

/** `aten::le.Tensor(Tensor self, Tensor other) -> Tensor` */
export function le_Tensor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_le_Tensor ??= resolve('aten::le.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_le_Tensor: number | undefined;

/** `aten::le.Scalar(Tensor self, Scalar other) -> Tensor` */
export function le_Scalar(self: Tensor, other: number | boolean): Tensor {
  const handle = (handle_le_Scalar ??= resolve('aten::le.Scalar'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(other);
  return callTensor(handle, provided);
}
let handle_le_Scalar: number | undefined;

/** `aten::gt.Tensor(Tensor self, Tensor other) -> Tensor` */
export function gt_Tensor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_gt_Tensor ??= resolve('aten::gt.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_gt_Tensor: number | undefined;

/** `aten::gt.Scalar(Tensor self, Scalar other) -> Tensor` */
export function gt_Scalar(self: Tensor, other: number | boolean): Tensor {
  const handle = (handle_gt_Scalar ??= resolve('aten::gt.Scalar'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(other);
  return callTensor(handle, provided);
}
let handle_gt_Scalar: number | undefined;

/** `aten::ge.Tensor(Tensor self, Tensor other) -> Tensor` */
export function ge_Tensor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_ge_Tensor ??= resolve('aten::ge.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_ge_Tensor: number | undefined;

/** `aten::ge.Scalar(Tensor self, Scalar other) -> Tensor` */
export function ge_Scalar(self: Tensor, other: number | boolean): Tensor {
  const handle = (handle_ge_Scalar ??= resolve('aten::ge.Scalar'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(other);
  return callTensor(handle, provided);
}
let handle_ge_Scalar: number | undefined;

/** `aten::logical_and(Tensor self, Tensor other) -> Tensor` */
export function logical_and(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_logical_and ??= resolve('aten::logical_and'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_logical_and: number | undefined;

/** `aten::logical_or(Tensor self, Tensor other) -> Tensor` */
export function logical_or(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_logical_or ??= resolve('aten::logical_or'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_logical_or: number | undefined;

/** `aten::logical_not(Tensor self) -> Tensor` */
export function logical_not(self: Tensor): Tensor {
  const handle = (handle_logical_not ??= resolve('aten::logical_not'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_logical_not: number | undefined;

/** `aten::logical_xor(Tensor self, Tensor other) -> Tensor` */
export function logical_xor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_logical_xor ??= resolve('aten::logical_xor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_logical_xor: number | undefined;

/** `aten::bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor` */
export function bitwise_and_Tensor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_bitwise_and_Tensor ??= resolve('aten::bitwise_and.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_bitwise_and_Tensor: number | undefined;

/** `aten::bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor` */
export function bitwise_or_Tensor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_bitwise_or_Tensor ??= resolve('aten::bitwise_or.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_bitwise_or_Tensor: number | undefined;

/** `aten::bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor` */
export function bitwise_xor_Tensor(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_bitwise_xor_Tensor ??= resolve('aten::bitwise_xor.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_bitwise_xor_Tensor: number | undefined;

/** `aten::bitwise_not(Tensor self) -> Tensor` */
export function bitwise_not(self: Tensor): Tensor {
  const handle = (handle_bitwise_not ??= resolve('aten::bitwise_not'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_bitwise_not: number | undefined;

/** `aten::equal(Tensor self, Tensor other) -> bool` */
export function equal(self: Tensor, other: Tensor): boolean {
  const handle = (handle_equal ??= resolve('aten::equal'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callMany(handle, provided, 'b')[0] as boolean;
}
let handle_equal: number | undefined;

/** `aten::allclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool equal_nan=False) -> bool` */
export function allclose(self: Tensor, other: Tensor, rtol?: number, atol?: number, equalNan?: boolean): boolean {
  const handle = (handle_allclose ??= resolve('aten::allclose'));
  begin();
  let provided = 3;
  putTensor(self);
  putTensor(other);
  if (rtol !== undefined) {
    provided += 4;
    putNumber(rtol);
  }
  if (atol !== undefined) {
    provided += 8;
    putNumber(atol);
  }
  if (equalNan !== undefined) {
    provided += 16;
    putFlag(equalNan);
  }
  return callMany(handle, provided, 'b')[0] as boolean;
}
let handle_allclose: number | undefined;

/** `aten::isclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool equal_nan=False) -> Tensor` */
export function isclose(self: Tensor, other: Tensor, rtol?: number, atol?: number, equalNan?: boolean): Tensor {
  const handle = (handle_isclose ??= resolve('aten::isclose'));
  begin();
  let provided = 3;
  putTensor(self);
  putTensor(other);
  if (rtol !== undefined) {
    provided += 4;
    putNumber(rtol);
  }
  if (atol !== undefined) {
    provided += 8;
    putNumber(atol);
  }
  if (equalNan !== undefined) {
    provided += 16;
    putFlag(equalNan);
  }
  return callTensor(handle, provided);
}
let handle_isclose: number | undefined;

/** `aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor` */
export function where_self(condition: Tensor, self: Tensor, other: Tensor): Tensor {
  const handle = (handle_where_self ??= resolve('aten::where.self'));
  begin();
  const provided = 7;
  putTensor(condition);
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_where_self: number | undefined;

/** `aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor` */
export function where_ScalarSelf(condition: Tensor, self: number | boolean, other: Tensor): Tensor {
  const handle = (handle_where_ScalarSelf ??= resolve('aten::where.ScalarSelf'));
  begin();
  const provided = 7;
  putTensor(condition);
  putScalar(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_where_ScalarSelf: number | undefined;

/** `aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor` */
export function where_ScalarOther(condition: Tensor, self: Tensor, other: number | boolean): Tensor {
  const handle = (handle_where_ScalarOther ??= resolve('aten::where.ScalarOther'));
  begin();
  const provided = 7;
  putTensor(condition);
  putTensor(self);
  putScalar(other);
  return callTensor(handle, provided);
}
let handle_where_ScalarOther: number | undefined;

/** `aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor` */
export function where_Scalar(condition: Tensor, self: number | boolean, other: number | boolean): Tensor {
  const handle = (handle_where_Scalar ??= resolve('aten::where.Scalar'));
  begin();
  const provided = 7;
  putTensor(condition);
  putScalar(self);
  putScalar(other);
  return callTensor(handle, provided);
}
let handle_where_Scalar: number | undefined;

/** `aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor` */
export function masked_fill_Scalar(self: Tensor, mask: Tensor, value: number | boolean): Tensor {
  const handle = (handle_masked_fill_Scalar ??= resolve('aten::masked_fill.Scalar'));
  begin();
  const provided = 7;
  putTensor(self);
  putTensor(mask);
  putScalar(value);
  return callTensor(handle, provided);
}
let handle_masked_fill_Scalar: number | undefined;

/** `aten::masked_fill_.Scalar(Tensor(a!) self, Tensor mask, Scalar value) -> Tensor(a!)` */
export function masked_fill__Scalar(self: Tensor, mask: Tensor, value: number | boolean): Tensor {
  const handle = (handle_masked_fill__Scalar ??= resolve('aten::masked_fill_.Scalar'));
  begin();
  const provided = 7;
  putTensor(self);
  putTensor(mask);
  putScalar(value);
  callVoid(handle, provided);
  return self;
}
let handle_masked_fill__Scalar: number | undefined;

/** `aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor` */
export function masked_fill_Tensor(self: Tensor, mask: Tensor, value: Tensor): Tensor {
  const handle = (handle_masked_fill_Tensor ??= resolve('aten::masked_fill.Tensor'));
  begin();
  const provided = 7;
  putTensor(self);
  putTensor(mask);
  putTensor(value);
  return callTensor(handle, provided);
}
let handle_masked_fill_Tensor: number | undefined;

/** `aten::masked_select(Tensor self, Tensor mask) -> Tensor` */
export function masked_select(self: Tensor, mask: Tensor): Tensor {
  const handle = (handle_masked_select ??= resolve('aten::masked_select'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(mask);
  return callTensor(handle, provided);
}
let handle_masked_select: number | undefined;

/** `aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor` */
export function masked_scatter(self: Tensor, mask: Tensor, source: Tensor): Tensor {
  const handle = (handle_masked_scatter ??= resolve('aten::masked_scatter'));
  begin();
  const provided = 7;
  putTensor(self);
  putTensor(mask);
  putTensor(source);
  return callTensor(handle, provided);
}
let handle_masked_scatter: number | undefined;

/** `aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor` */
export function sum(self: Tensor, dtype_?: DType | null): Tensor {
  const handle = (handle_sum ??= resolve('aten::sum'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  return callTensor(handle, provided);
}
let handle_sum: number | undefined;

/** `aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor` */
export function sum_dim_IntList(self: Tensor, dim?: readonly number[] | null, keepdim?: boolean, dtype_?: DType | null): Tensor {
  const handle = (handle_sum_dim_IntList ??= resolve('aten::sum.dim_IntList'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dim !== undefined) {
    provided += 2;
    dim === null ? putFlag(false) : (putFlag(true), putNumbers(dim));
  }
  if (keepdim !== undefined) {
    provided += 4;
    putFlag(keepdim);
  }
  if (dtype_ !== undefined) {
    provided += 8;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  return callTensor(handle, provided);
}
let handle_sum_dim_IntList: number | undefined;

/** `aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor` */
export function mean(self: Tensor, dtype_?: DType | null): Tensor {
  const handle = (handle_mean ??= resolve('aten::mean'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  return callTensor(handle, provided);
}
let handle_mean: number | undefined;

/** `aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor` */
export function mean_dim(self: Tensor, dim?: readonly number[] | null, keepdim?: boolean, dtype_?: DType | null): Tensor {
  const handle = (handle_mean_dim ??= resolve('aten::mean.dim'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dim !== undefined) {
    provided += 2;
    dim === null ? putFlag(false) : (putFlag(true), putNumbers(dim));
  }
  if (keepdim !== undefined) {
    provided += 4;
    putFlag(keepdim);
  }
  if (dtype_ !== undefined) {
    provided += 8;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  return callTensor(handle, provided);
}
let handle_mean_dim: number | undefined;

/** `aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor` */
export function prod(self: Tensor, dtype_?: DType | null): Tensor {
  const handle = (handle_prod ??= resolve('aten::prod'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  return callTensor(handle, provided);
}
let handle_prod: number | undefined;

/** `aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor` */
export function prod_dim_int(self: Tensor, dim: number, keepdim?: boolean, dtype_?: DType | null): Tensor {
  const handle = (handle_prod_dim_int ??= resolve('aten::prod.dim_int'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumber(dim);
  if (keepdim !== undefined) {
    provided += 4;
    putFlag(keepdim);
  }
  if (dtype_ !== undefined) {
    provided += 8;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  return callTensor(handle, provided);
}
let handle_prod_dim_int: number | undefined;

/** `aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor` */
export function var_correction(self: Tensor, dim?: readonly number[] | null, correction?: number | boolean | null, keepdim?: boolean): Tensor {
  const handle = (handle_var_correction ??= resolve('aten::var.correction'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dim !== undefined) {
    provided += 2;
    dim === null ? putFlag(false) : (putFlag(true), putNumbers(dim));
  }
  if (correction !== undefined) {
    provided += 4;
    correction === null ? putFlag(false) : (putFlag(true), putScalar(correction));
  }
  if (keepdim !== undefined) {
    provided += 8;
    putFlag(keepdim);
  }
  return callTensor(handle, provided);
}
let handle_var_correction: number | undefined;

/** `aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor` */
export function std_correction(self: Tensor, dim?: readonly number[] | null, correction?: number | boolean | null, keepdim?: boolean): Tensor {
  const handle = (handle_std_correction ??= resolve('aten::std.correction'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dim !== undefined) {
    provided += 2;
    dim === null ? putFlag(false) : (putFlag(true), putNumbers(dim));
  }
  if (correction !== undefined) {
    provided += 4;
    correction === null ? putFlag(false) : (putFlag(true), putScalar(correction));
  }
  if (keepdim !== undefined) {
    provided += 8;
    putFlag(keepdim);
  }
  return callTensor(handle, provided);
}
let handle_std_correction: number | undefined;

/** `aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor` */
export function amax(self: Tensor, dim?: readonly number[], keepdim?: boolean): Tensor {
  const handle = (handle_amax ??= resolve('aten::amax'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dim !== undefined) {
    provided += 2;
    putNumbers(dim);
  }
  if (keepdim !== undefined) {
    provided += 4;
    putFlag(keepdim);
  }
  return callTensor(handle, provided);
}
let handle_amax: number | undefined;

/** `aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor` */
export function amin(self: Tensor, dim?: readonly number[], keepdim?: boolean): Tensor {
  const handle = (handle_amin ??= resolve('aten::amin'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dim !== undefined) {
    provided += 2;
    putNumbers(dim);
  }
  if (keepdim !== undefined) {
    provided += 4;
    putFlag(keepdim);
  }
  return callTensor(handle, provided);
}
let handle_amin: number | undefined;

/** `aten::max(Tensor self) -> Tensor` */
export function max(self: Tensor): Tensor {
  const handle = (handle_max ??= resolve('aten::max'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_max: number | undefined;

/** `aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)` */
export function max_dim(self: Tensor, dim: number, keepdim?: boolean): [Tensor, Tensor] {
  const handle = (handle_max_dim ??= resolve('aten::max.dim'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumber(dim);
  if (keepdim !== undefined) {
    provided += 4;
    putFlag(keepdim);
  }
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle_max_dim: number | undefined;

/** `aten::min(Tensor self) -> Tensor` */
export function min(self: Tensor): Tensor {
  const handle = (handle_min ??= resolve('aten::min'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_min: number | undefined;

/** `aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)` */
export function min_dim(self: Tensor, dim: number, keepdim?: boolean): [Tensor, Tensor] {
  const handle = (handle_min_dim ??= resolve('aten::min.dim'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumber(dim);
  if (keepdim !== undefined) {
    provided += 4;
    putFlag(keepdim);
  }
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle_min_dim: number | undefined;

/** `aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor` */
export function argmax(self: Tensor, dim?: number | null, keepdim?: boolean): Tensor {
  const handle = (handle_argmax ??= resolve('aten::argmax'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dim !== undefined) {
    provided += 2;
    dim === null ? putFlag(false) : (putFlag(true), putNumber(dim));
  }
  if (keepdim !== undefined) {
    provided += 4;
    putFlag(keepdim);
  }
  return callTensor(handle, provided);
}
let handle_argmax: number | undefined;

/** `aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor` */
export function argmin(self: Tensor, dim?: number | null, keepdim?: boolean): Tensor {
  const handle = (handle_argmin ??= resolve('aten::argmin'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dim !== undefined) {
    provided += 2;
    dim === null ? putFlag(false) : (putFlag(true), putNumber(dim));
  }
  if (keepdim !== undefined) {
    provided += 4;
    putFlag(keepdim);
  }
  return callTensor(handle, provided);
}
let handle_argmin: number | undefined;

/** `aten::any(Tensor self) -> Tensor` */
export function any(self: Tensor): Tensor {
  const handle = (handle_any ??= resolve('aten::any'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_any: number | undefined;

/** `aten::any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor` */
export function any_dim(self: Tensor, dim: number, keepdim?: boolean): Tensor {
  const handle = (handle_any_dim ??= resolve('aten::any.dim'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumber(dim);
  if (keepdim !== undefined) {
    provided += 4;
    putFlag(keepdim);
  }
  return callTensor(handle, provided);
}
let handle_any_dim: number | undefined;

/** `aten::all(Tensor self) -> Tensor` */
export function all(self: Tensor): Tensor {
  const handle = (handle_all ??= resolve('aten::all'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_all: number | undefined;

/** `aten::all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor` */
export function all_dim(self: Tensor, dim: number, keepdim?: boolean): Tensor {
  const handle = (handle_all_dim ??= resolve('aten::all.dim'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumber(dim);
  if (keepdim !== undefined) {
    provided += 4;
    putFlag(keepdim);
  }
  return callTensor(handle, provided);
}
let handle_all_dim: number | undefined;

/** `aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor` */
export function logsumexp(self: Tensor, dim: readonly number[], keepdim?: boolean): Tensor {
  const handle = (handle_logsumexp ??= resolve('aten::logsumexp'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumbers(dim);
  if (keepdim !== undefined) {
    provided += 4;
    putFlag(keepdim);
  }
  return callTensor(handle, provided);
}
let handle_logsumexp: number | undefined;

/** `aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor` */
export function cumsum(self: Tensor, dim: number, dtype_?: DType | null): Tensor {
  const handle = (handle_cumsum ??= resolve('aten::cumsum'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumber(dim);
  if (dtype_ !== undefined) {
    provided += 4;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  return callTensor(handle, provided);
}
let handle_cumsum: number | undefined;

/** `aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor` */
export function cumprod(self: Tensor, dim: number, dtype_?: DType | null): Tensor {
  const handle = (handle_cumprod ??= resolve('aten::cumprod'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumber(dim);
  if (dtype_ !== undefined) {
    provided += 4;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  return callTensor(handle, provided);
}
let handle_cumprod: number | undefined;

/** `aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)` */
export function cummax(self: Tensor, dim: number): [Tensor, Tensor] {
  const handle = (handle_cummax ??= resolve('aten::cummax'));
  begin();
  const provided = 3;
  putTensor(self);
  putNumber(dim);
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle_cummax: number | undefined;

/** `aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor` */
export function linalg_vector_norm(self: Tensor, ord?: number | boolean, dim?: readonly number[] | null, keepdim?: boolean, dtype_?: DType | null): Tensor {
  const handle = (handle_linalg_vector_norm ??= resolve('aten::linalg_vector_norm'));
  begin();
  let provided = 1;
  putTensor(self);
  if (ord !== undefined) {
    provided += 2;
    putScalar(ord);
  }
  if (dim !== undefined) {
    provided += 4;
    dim === null ? putFlag(false) : (putFlag(true), putNumbers(dim));
  }
  if (keepdim !== undefined) {
    provided += 8;
    putFlag(keepdim);
  }
  if (dtype_ !== undefined) {
    provided += 16;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  return callTensor(handle, provided);
}
let handle_linalg_vector_norm: number | undefined;

/** `aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor` */
export function norm_Scalar(self: Tensor, p?: number | boolean): Tensor {
  const handle = (handle_norm_Scalar ??= resolve('aten::norm.Scalar'));
  begin();
  let provided = 1;
  putTensor(self);
  if (p !== undefined) {
    provided += 2;
    putScalar(p);
  }
  return callTensor(handle, provided);
}
let handle_norm_Scalar: number | undefined;

/** `aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor` */
export function softmax_int(self: Tensor, dim: number, dtype_?: DType | null): Tensor {
  const handle = (handle_softmax_int ??= resolve('aten::softmax.int'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumber(dim);
  if (dtype_ !== undefined) {
    provided += 4;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  return callTensor(handle, provided);
}
let handle_softmax_int: number | undefined;

/** `aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor` */
export function log_softmax_int(self: Tensor, dim: number, dtype_?: DType | null): Tensor {
  const handle = (handle_log_softmax_int ??= resolve('aten::log_softmax.int'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumber(dim);
  if (dtype_ !== undefined) {
    provided += 4;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  return callTensor(handle, provided);
}
let handle_log_softmax_int: number | undefined;

/** `aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)` */
export function sort(self: Tensor, dim?: number, descending?: boolean): [Tensor, Tensor] {
  const handle = (handle_sort ??= resolve('aten::sort'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dim !== undefined) {
    provided += 2;
    putNumber(dim);
  }
  if (descending !== undefined) {
    provided += 4;
    putFlag(descending);
  }
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle_sort: number | undefined;

/** `aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)` */
export function sort_stable(self: Tensor, stable?: boolean | null, dim?: number, descending?: boolean): [Tensor, Tensor] {
  const handle = (handle_sort_stable ??= resolve('aten::sort.stable'));
  begin();
  let provided = 1;
  putTensor(self);
  if (stable !== undefined) {
    provided += 2;
    stable === null ? putFlag(false) : (putFlag(true), putFlag(stable));
  }
  if (dim !== undefined) {
    provided += 4;
    putNumber(dim);
  }
  if (descending !== undefined) {
    provided += 8;
    putFlag(descending);
  }
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle_sort_stable: number | undefined;

/** `aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor` */
export function argsort(self: Tensor, dim?: number, descending?: boolean): Tensor {
  const handle = (handle_argsort ??= resolve('aten::argsort'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dim !== undefined) {
    provided += 2;
    putNumber(dim);
  }
  if (descending !== undefined) {
    provided += 4;
    putFlag(descending);
  }
  return callTensor(handle, provided);
}
let handle_argsort: number | undefined;

/** `aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)` */
export function topk(self: Tensor, k: number, dim?: number, largest?: boolean, sorted?: boolean): [Tensor, Tensor] {
  const handle = (handle_topk ??= resolve('aten::topk'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumber(k);
  if (dim !== undefined) {
    provided += 4;
    putNumber(dim);
  }
  if (largest !== undefined) {
    provided += 8;
    putFlag(largest);
  }
  if (sorted !== undefined) {
    provided += 16;
    putFlag(sorted);
  }
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle_topk: number | undefined;

/** `aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor` */
export function searchsorted_Tensor(sortedSequence: Tensor, self: Tensor, outInt32?: boolean, right?: boolean, side?: string | null, sorter?: Tensor | null): Tensor {
  const handle = (handle_searchsorted_Tensor ??= resolve('aten::searchsorted.Tensor'));
  begin();
  let provided = 3;
  putTensor(sortedSequence);
  putTensor(self);
  if (outInt32 !== undefined) {
    provided += 4;
    putFlag(outInt32);
  }
  if (right !== undefined) {
    provided += 8;
    putFlag(right);
  }
  if (side !== undefined) {
    provided += 16;
    side === null ? putFlag(false) : (putFlag(true), putString(side));
  }
  if (sorter !== undefined) {
    provided += 32;
    putTensor(sorter);
  }
  return callTensor(handle, provided);
}
let handle_searchsorted_Tensor: number | undefined;

/** `aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor` */
export function bincount(self: Tensor, weights?: Tensor | null, minlength?: number): Tensor {
  const handle = (handle_bincount ??= resolve('aten::bincount'));
  begin();
  let provided = 1;
  putTensor(self);
  if (weights !== undefined) {
    provided += 2;
    putTensor(weights);
  }
  if (minlength !== undefined) {
    provided += 4;
    putNumber(minlength);
  }
  return callTensor(handle, provided);
}
let handle_bincount: number | undefined;

/** `aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)` */
export function _unique2(self: Tensor, sorted?: boolean, returnInverse?: boolean, returnCounts?: boolean): [Tensor, Tensor, Tensor] {
  const handle = (handle__unique2 ??= resolve('aten::_unique2'));
  begin();
  let provided = 1;
  putTensor(self);
  if (sorted !== undefined) {
    provided += 2;
    putFlag(sorted);
  }
  if (returnInverse !== undefined) {
    provided += 4;
    putFlag(returnInverse);
  }
  if (returnCounts !== undefined) {
    provided += 8;
    putFlag(returnCounts);
  }
  return callMany(handle, provided, 'TTT') as [Tensor, Tensor, Tensor];
}
let handle__unique2: number | undefined;

/** `aten::nonzero(Tensor self) -> Tensor` */
export function nonzero(self: Tensor): Tensor {
  const handle = (handle_nonzero ??= resolve('aten::nonzero'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_nonzero: number | undefined;

/** `aten::count_nonzero(Tensor self, int? dim=None) -> Tensor` */
export function count_nonzero(self: Tensor, dim?: number | null): Tensor {
  const handle = (handle_count_nonzero ??= resolve('aten::count_nonzero'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dim !== undefined) {
    provided += 2;
    dim === null ? putFlag(false) : (putFlag(true), putNumber(dim));
  }
  return callTensor(handle, provided);
}
let handle_count_nonzero: number | undefined;

/** `aten::matmul(Tensor self, Tensor other) -> Tensor` */
export function matmul(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_matmul ??= resolve('aten::matmul'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_matmul: number | undefined;

/** `aten::mm(Tensor self, Tensor mat2) -> Tensor` */
export function mm(self: Tensor, mat2: Tensor): Tensor {
  const handle = (handle_mm ??= resolve('aten::mm'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(mat2);
  return callTensor(handle, provided);
}
let handle_mm: number | undefined;

/** `aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)` */
export function mm_out(self: Tensor, mat2: Tensor, out: Tensor): Tensor {
  const handle = (handle_mm_out ??= resolve('aten::mm.out'));
  begin();
  const provided = 7;
  putTensor(self);
  putTensor(mat2);
  putTensor(out);
  callVoid(handle, provided);
  return out;
}
let handle_mm_out: number | undefined;

/** `aten::mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor` */
export function mm_dtype(self: Tensor, mat2: Tensor, outDtype: DType): Tensor {
  const handle = (handle_mm_dtype ??= resolve('aten::mm.dtype'));
  begin();
  const provided = 7;
  putTensor(self);
  putTensor(mat2);
  putDType(outDtype);
  return callTensor(handle, provided);
}
let handle_mm_dtype: number | undefined;

/** `aten::bmm(Tensor self, Tensor mat2) -> Tensor` */
export function bmm(self: Tensor, mat2: Tensor): Tensor {
  const handle = (handle_bmm ??= resolve('aten::bmm'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(mat2);
  return callTensor(handle, provided);
}
let handle_bmm: number | undefined;

/** `aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor` */
export function addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta?: number | boolean, alpha?: number | boolean): Tensor {
  const handle = (handle_addmm ??= resolve('aten::addmm'));
  begin();
  let provided = 7;
  putTensor(self);
  putTensor(mat1);
  putTensor(mat2);
  if (beta !== undefined) {
    provided += 8;
    putScalar(beta);
  }
  if (alpha !== undefined) {
    provided += 16;
    putScalar(alpha);
  }
  return callTensor(handle, provided);
}
let handle_addmm: number | undefined;

/** `aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)` */
export function addmm_out(self: Tensor, mat1: Tensor, mat2: Tensor, beta: number | boolean | undefined, alpha: number | boolean | undefined, out: Tensor): Tensor {
  const handle = (handle_addmm_out ??= resolve('aten::addmm.out'));
  begin();
  let provided = 39;
  putTensor(self);
  putTensor(mat1);
  putTensor(mat2);
  if (beta !== undefined) {
    provided += 8;
    putScalar(beta);
  }
  if (alpha !== undefined) {
    provided += 16;
    putScalar(alpha);
  }
  putTensor(out);
  callVoid(handle, provided);
  return out;
}
let handle_addmm_out: number | undefined;

/** `aten::addmm_(Tensor(a!) self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!)` */
export function addmm_(self: Tensor, mat1: Tensor, mat2: Tensor, beta?: number | boolean, alpha?: number | boolean): Tensor {
  const handle = (handle_addmm_ ??= resolve('aten::addmm_'));
  begin();
  let provided = 7;
  putTensor(self);
  putTensor(mat1);
  putTensor(mat2);
  if (beta !== undefined) {
    provided += 8;
    putScalar(beta);
  }
  if (alpha !== undefined) {
    provided += 16;
    putScalar(alpha);
  }
  callVoid(handle, provided);
  return self;
}
let handle_addmm_: number | undefined;

/** `aten::addmm.dtype_out(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)` */
export function addmm_dtype_out(self: Tensor, mat1: Tensor, mat2: Tensor, outDtype: DType, beta: number | boolean | undefined, alpha: number | boolean | undefined, out: Tensor): Tensor {
  const handle = (handle_addmm_dtype_out ??= resolve('aten::addmm.dtype_out'));
  begin();
  let provided = 79;
  putTensor(self);
  putTensor(mat1);
  putTensor(mat2);
  putDType(outDtype);
  if (beta !== undefined) {
    provided += 16;
    putScalar(beta);
  }
  if (alpha !== undefined) {
    provided += 32;
    putScalar(alpha);
  }
  putTensor(out);
  callVoid(handle, provided);
  return out;
}
let handle_addmm_dtype_out: number | undefined;

/** `aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor` */
export function linear(input: Tensor, weight: Tensor, bias?: Tensor | null): Tensor {
  const handle = (handle_linear ??= resolve('aten::linear'));
  begin();
  let provided = 3;
  putTensor(input);
  putTensor(weight);
  if (bias !== undefined) {
    provided += 4;
    putTensor(bias);
  }
  return callTensor(handle, provided);
}
let handle_linear: number | undefined;

/** `aten::mv(Tensor self, Tensor vec) -> Tensor` */
export function mv(self: Tensor, vec: Tensor): Tensor {
  const handle = (handle_mv ??= resolve('aten::mv'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(vec);
  return callTensor(handle, provided);
}
let handle_mv: number | undefined;

/** `aten::dot(Tensor self, Tensor tensor) -> Tensor` */
export function dot(self: Tensor, tensor: Tensor): Tensor {
  const handle = (handle_dot ??= resolve('aten::dot'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(tensor);
  return callTensor(handle, provided);
}
let handle_dot: number | undefined;

/** `aten::outer(Tensor self, Tensor vec2) -> Tensor` */
export function outer(self: Tensor, vec2: Tensor): Tensor {
  const handle = (handle_outer ??= resolve('aten::outer'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(vec2);
  return callTensor(handle, provided);
}
let handle_outer: number | undefined;

/** `aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor` */
export function einsum(equation: string, tensors: readonly Tensor[], path?: readonly number[] | null): Tensor {
  const handle = (handle_einsum ??= resolve('aten::einsum'));
  begin();
  let provided = 3;
  putString(equation);
  putTensors(tensors);
  if (path !== undefined) {
    provided += 4;
    path === null ? putFlag(false) : (putFlag(true), putNumbers(path));
  }
  return callTensor(handle, provided);
}
let handle_einsum: number | undefined;

/** `aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor` */
export function baddbmm(self: Tensor, batch1: Tensor, batch2: Tensor, beta?: number | boolean, alpha?: number | boolean): Tensor {
  const handle = (handle_baddbmm ??= resolve('aten::baddbmm'));
  begin();
  let provided = 7;
  putTensor(self);
  putTensor(batch1);
  putTensor(batch2);
  if (beta !== undefined) {
    provided += 8;
    putScalar(beta);
  }
  if (alpha !== undefined) {
    provided += 16;
    putScalar(alpha);
  }
  return callTensor(handle, provided);
}
let handle_baddbmm: number | undefined;

/** `aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor` */
export function embedding(weight: Tensor, indices: Tensor, paddingIdx?: number, scaleGradByFreq?: boolean, sparse?: boolean): Tensor {
  const handle = (handle_embedding ??= resolve('aten::embedding'));
  begin();
  let provided = 3;
  putTensor(weight);
  putTensor(indices);
  if (paddingIdx !== undefined) {
    provided += 4;
    putNumber(paddingIdx);
  }
  if (scaleGradByFreq !== undefined) {
    provided += 8;
    putFlag(scaleGradByFreq);
  }
  if (sparse !== undefined) {
    provided += 16;
    putFlag(sparse);
  }
  return callTensor(handle, provided);
}
let handle_embedding: number | undefined;

/** `aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq) -> Tensor` */
export function embedding_dense_backward(gradOutput: Tensor, indices: Tensor, numWeights: number, paddingIdx: number, scaleGradByFreq: boolean): Tensor {
  const handle = (handle_embedding_dense_backward ??= resolve('aten::embedding_dense_backward'));
  begin();
  const provided = 31;
  putTensor(gradOutput);
  putTensor(indices);
  putNumber(numWeights);
  putNumber(paddingIdx);
  putFlag(scaleGradByFreq);
  return callTensor(handle, provided);
}
let handle_embedding_dense_backward: number | undefined;

/** `aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)` */
export function native_layer_norm(input: Tensor, normalizedShape: readonly number[], weight: Tensor | null | undefined, bias: Tensor | null | undefined, eps: number): [Tensor, Tensor, Tensor] {
  const handle = (handle_native_layer_norm ??= resolve('aten::native_layer_norm'));
  begin();
  let provided = 19;
  putTensor(input);
  putNumbers(normalizedShape);
  if (weight !== undefined) {
    provided += 4;
    putTensor(weight);
  }
  if (bias !== undefined) {
    provided += 8;
    putTensor(bias);
  }
  putNumber(eps);
  return callMany(handle, provided, 'TTT') as [Tensor, Tensor, Tensor];
}
let handle_native_layer_norm: number | undefined;

/** `aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor` */
export function layer_norm(input: Tensor, normalizedShape: readonly number[], weight?: Tensor | null, bias?: Tensor | null, eps?: number, cudnnEnable?: boolean): Tensor {
  const handle = (handle_layer_norm ??= resolve('aten::layer_norm'));
  begin();
  let provided = 3;
  putTensor(input);
  putNumbers(normalizedShape);
  if (weight !== undefined) {
    provided += 4;
    putTensor(weight);
  }
  if (bias !== undefined) {
    provided += 8;
    putTensor(bias);
  }
  if (eps !== undefined) {
    provided += 16;
    putNumber(eps);
  }
  if (cudnnEnable !== undefined) {
    provided += 32;
    putFlag(cudnnEnable);
  }
  return callTensor(handle, provided);
}
let handle_layer_norm: number | undefined;

/** `aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor` */
export function rms_norm(input: Tensor, normalizedShape: readonly number[], weight?: Tensor | null, eps?: number | null): Tensor {
  const handle = (handle_rms_norm ??= resolve('aten::rms_norm'));
  begin();
  let provided = 3;
  putTensor(input);
  putNumbers(normalizedShape);
  if (weight !== undefined) {
    provided += 4;
    putTensor(weight);
  }
  if (eps !== undefined) {
    provided += 8;
    eps === null ? putFlag(false) : (putFlag(true), putNumber(eps));
  }
  return callTensor(handle, provided);
}
let handle_rms_norm: number | undefined;

/** `aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)` */
export function _fused_rms_norm(input: Tensor, normalizedShape: readonly number[], weight?: Tensor | null, eps?: number | null): [Tensor, Tensor] {
  const handle = (handle__fused_rms_norm ??= resolve('aten::_fused_rms_norm'));
  begin();
  let provided = 3;
  putTensor(input);
  putNumbers(normalizedShape);
  if (weight !== undefined) {
    provided += 4;
    putTensor(weight);
  }
  if (eps !== undefined) {
    provided += 8;
    eps === null ? putFlag(false) : (putFlag(true), putNumber(eps));
  }
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle__fused_rms_norm: number | undefined;

/** `aten::_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight, bool[2] output_mask) -> (Tensor, Tensor)` */
export function _fused_rms_norm_backward(gradOut: Tensor, input: Tensor, normalizedShape: readonly number[], rstd: Tensor, weight: Tensor | null | undefined, outputMask: readonly boolean[]): [Tensor, Tensor] {
  const handle = (handle__fused_rms_norm_backward ??= resolve('aten::_fused_rms_norm_backward'));
  begin();
  let provided = 47;
  putTensor(gradOut);
  putTensor(input);
  putNumbers(normalizedShape);
  putTensor(rstd);
  if (weight !== undefined) {
    provided += 16;
    putTensor(weight);
  }
  putFlags(outputMask);
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle__fused_rms_norm_backward: number | undefined;

/** `aten::dropout(Tensor input, float p, bool train) -> Tensor` */
export function dropout(input: Tensor, p: number, train: boolean): Tensor {
  const handle = (handle_dropout ??= resolve('aten::dropout'));
  begin();
  const provided = 7;
  putTensor(input);
  putNumber(p);
  putFlag(train);
  return callTensor(handle, provided);
}
let handle_dropout: number | undefined;

/** `aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)` */
export function native_dropout(input: Tensor, p: number, train?: boolean | null): [Tensor, Tensor] {
  const handle = (handle_native_dropout ??= resolve('aten::native_dropout'));
  begin();
  let provided = 3;
  putTensor(input);
  putNumber(p);
  if (train !== undefined) {
    provided += 4;
    train === null ? putFlag(false) : (putFlag(true), putFlag(train));
  }
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle_native_dropout: number | undefined;

/** `aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor` */
export function scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attnMask?: Tensor | null, dropoutP?: number, isCausal?: boolean, scale?: number | null, enableGqa?: boolean): Tensor {
  const handle = (handle_scaled_dot_product_attention ??= resolve('aten::scaled_dot_product_attention'));
  begin();
  let provided = 7;
  putTensor(query);
  putTensor(key);
  putTensor(value);
  if (attnMask !== undefined) {
    provided += 8;
    putTensor(attnMask);
  }
  if (dropoutP !== undefined) {
    provided += 16;
    putNumber(dropoutP);
  }
  if (isCausal !== undefined) {
    provided += 32;
    putFlag(isCausal);
  }
  if (scale !== undefined) {
    provided += 64;
    scale === null ? putFlag(false) : (putFlag(true), putNumber(scale));
  }
  if (enableGqa !== undefined) {
    provided += 128;
    putFlag(enableGqa);
  }
  return callTensor(handle, provided);
}
let handle_scaled_dot_product_attention: number | undefined;

/** `aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)` */
export function _scaled_dot_product_flash_attention_for_cpu(query: Tensor, key: Tensor, value: Tensor, dropoutP?: number, isCausal?: boolean, attnMask?: Tensor | null, scale?: number | null): [Tensor, Tensor] {
  const handle = (handle__scaled_dot_product_flash_attention_for_cpu ??= resolve('aten::_scaled_dot_product_flash_attention_for_cpu'));
  begin();
  let provided = 7;
  putTensor(query);
  putTensor(key);
  putTensor(value);
  if (dropoutP !== undefined) {
    provided += 8;
    putNumber(dropoutP);
  }
  if (isCausal !== undefined) {
    provided += 16;
    putFlag(isCausal);
  }
  if (attnMask !== undefined) {
    provided += 32;
    putTensor(attnMask);
  }
  if (scale !== undefined) {
    provided += 64;
    scale === null ? putFlag(false) : (putFlag(true), putNumber(scale));
  }
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle__scaled_dot_product_flash_attention_for_cpu: number | undefined;

/** `aten::_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale=None, SymInt? window_size_left=None, SymInt? window_size_right=None, Tensor? seqused_k=None, Tensor? alibi_slopes=None, Tensor? block_table=None, int? num_splits=None) -> (Tensor output, Tensor softmax_logsumexp, Tensor rng_state, Tensor unused, Tensor debug_attn_mask)` */
export function _flash_attention_forward(query: Tensor, key: Tensor, value: Tensor, cumSeqQ: Tensor | null | undefined, cumSeqK: Tensor | null | undefined, maxQ: number, maxK: number, dropoutP: number, isCausal: boolean, returnDebugMask: boolean, scale?: number | null, windowSizeLeft?: number | null, windowSizeRight?: number | null, sequsedK?: Tensor | null, alibiSlopes?: Tensor | null, blockTable?: Tensor | null, numSplits?: number | null): [Tensor, Tensor, Tensor, Tensor, Tensor] {
  const handle = (handle__flash_attention_forward ??= resolve('aten::_flash_attention_forward'));
  begin();
  let provided = 999;
  putTensor(query);
  putTensor(key);
  putTensor(value);
  if (cumSeqQ !== undefined) {
    provided += 8;
    putTensor(cumSeqQ);
  }
  if (cumSeqK !== undefined) {
    provided += 16;
    putTensor(cumSeqK);
  }
  putNumber(maxQ);
  putNumber(maxK);
  putNumber(dropoutP);
  putFlag(isCausal);
  putFlag(returnDebugMask);
  if (scale !== undefined) {
    provided += 1024;
    scale === null ? putFlag(false) : (putFlag(true), putNumber(scale));
  }
  if (windowSizeLeft !== undefined) {
    provided += 2048;
    windowSizeLeft === null ? putFlag(false) : (putFlag(true), putNumber(windowSizeLeft));
  }
  if (windowSizeRight !== undefined) {
    provided += 4096;
    windowSizeRight === null ? putFlag(false) : (putFlag(true), putNumber(windowSizeRight));
  }
  if (sequsedK !== undefined) {
    provided += 8192;
    putTensor(sequsedK);
  }
  if (alibiSlopes !== undefined) {
    provided += 16384;
    putTensor(alibiSlopes);
  }
  if (blockTable !== undefined) {
    provided += 32768;
    putTensor(blockTable);
  }
  if (numSplits !== undefined) {
    provided += 65536;
    numSplits === null ? putFlag(false) : (putFlag(true), putNumber(numSplits));
  }
  return callMany(handle, provided, 'TTTTT') as [Tensor, Tensor, Tensor, Tensor, Tensor];
}
let handle__flash_attention_forward: number | undefined;

/** `aten::_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, Tensor rng_state, Tensor unused, *, float? scale=None, SymInt? window_size_left=None, SymInt? window_size_right=None) -> (Tensor, Tensor, Tensor)` */
export function _flash_attention_backward(gradOut: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor, cumSeqQ: Tensor, cumSeqK: Tensor, maxQ: number, maxK: number, dropoutP: number, isCausal: boolean, rngState: Tensor, unused: Tensor, scale?: number | null, windowSizeLeft?: number | null, windowSizeRight?: number | null): [Tensor, Tensor, Tensor] {
  const handle = (handle__flash_attention_backward ??= resolve('aten::_flash_attention_backward'));
  begin();
  let provided = 16383;
  putTensor(gradOut);
  putTensor(query);
  putTensor(key);
  putTensor(value);
  putTensor(out);
  putTensor(logsumexp);
  putTensor(cumSeqQ);
  putTensor(cumSeqK);
  putNumber(maxQ);
  putNumber(maxK);
  putNumber(dropoutP);
  putFlag(isCausal);
  putTensor(rngState);
  putTensor(unused);
  if (scale !== undefined) {
    provided += 16384;
    scale === null ? putFlag(false) : (putFlag(true), putNumber(scale));
  }
  if (windowSizeLeft !== undefined) {
    provided += 32768;
    windowSizeLeft === null ? putFlag(false) : (putFlag(true), putNumber(windowSizeLeft));
  }
  if (windowSizeRight !== undefined) {
    provided += 65536;
    windowSizeRight === null ? putFlag(false) : (putFlag(true), putNumber(windowSizeRight));
  }
  return callMany(handle, provided, 'TTT') as [Tensor, Tensor, Tensor];
}
let handle__flash_attention_backward: number | undefined;

/** `aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor` */
export function cross_entropy_loss(self: Tensor, target: Tensor, weight?: Tensor | null, reduction?: number, ignoreIndex?: number, labelSmoothing?: number): Tensor {
  const handle = (handle_cross_entropy_loss ??= resolve('aten::cross_entropy_loss'));
  begin();
  let provided = 3;
  putTensor(self);
  putTensor(target);
  if (weight !== undefined) {
    provided += 4;
    putTensor(weight);
  }
  if (reduction !== undefined) {
    provided += 8;
    putNumber(reduction);
  }
  if (ignoreIndex !== undefined) {
    provided += 16;
    putNumber(ignoreIndex);
  }
  if (labelSmoothing !== undefined) {
    provided += 32;
    putNumber(labelSmoothing);
  }
  return callTensor(handle, provided);
}
let handle_cross_entropy_loss: number | undefined;

/** `aten::nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor` */
export function nll_loss(self: Tensor, target: Tensor, weight?: Tensor | null, reduction?: number, ignoreIndex?: number): Tensor {
  const handle = (handle_nll_loss ??= resolve('aten::nll_loss'));
  begin();
  let provided = 3;
  putTensor(self);
  putTensor(target);
  if (weight !== undefined) {
    provided += 4;
    putTensor(weight);
  }
  if (reduction !== undefined) {
    provided += 8;
    putNumber(reduction);
  }
  if (ignoreIndex !== undefined) {
    provided += 16;
    putNumber(ignoreIndex);
  }
  return callTensor(handle, provided);
}
let handle_nll_loss: number | undefined;

/** `aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor` */
export function mse_loss(self: Tensor, target: Tensor, reduction?: number): Tensor {
  const handle = (handle_mse_loss ??= resolve('aten::mse_loss'));
  begin();
  let provided = 3;
  putTensor(self);
  putTensor(target);
  if (reduction !== undefined) {
    provided += 4;
    putNumber(reduction);
  }
  return callTensor(handle, provided);
}
let handle_mse_loss: number | undefined;

/** `aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)` */
export function reshape(self: Tensor, shape: readonly number[]): Tensor {
  const handle = (handle_reshape ??= resolve('aten::reshape'));
  begin();
  const provided = 3;
  putTensor(self);
  putNumbers(shape);
  return callTensor(handle, provided);
}
let handle_reshape: number | undefined;

/** `aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)` */
export function view(self: Tensor, size: readonly number[]): Tensor {
  const handle = (handle_view ??= resolve('aten::view'));
  begin();
  const provided = 3;
  putTensor(self);
  putNumbers(size);
  return callTensor(handle, provided);
}
let handle_view: number | undefined;

/** `aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)` */
export function view_dtype(self: Tensor, dtype_: DType): Tensor {
  const handle = (handle_view_dtype ??= resolve('aten::view.dtype'));
  begin();
  const provided = 3;
  putTensor(self);
  putDType(dtype_);
  return callTensor(handle, provided);
}
let handle_view_dtype: number | undefined;

/** `aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)` */
export function view_as(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_view_as ??= resolve('aten::view_as'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_view_as: number | undefined;

/** `aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)` */
export function flatten_using_ints(self: Tensor, startDim?: number, endDim?: number): Tensor {
  const handle = (handle_flatten_using_ints ??= resolve('aten::flatten.using_ints'));
  begin();
  let provided = 1;
  putTensor(self);
  if (startDim !== undefined) {
    provided += 2;
    putNumber(startDim);
  }
  if (endDim !== undefined) {
    provided += 4;
    putNumber(endDim);
  }
  return callTensor(handle, provided);
}
let handle_flatten_using_ints: number | undefined;

/** `aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)` */
export function unflatten_int(self: Tensor, dim: number, sizes: readonly number[]): Tensor {
  const handle = (handle_unflatten_int ??= resolve('aten::unflatten.int'));
  begin();
  const provided = 7;
  putTensor(self);
  putNumber(dim);
  putNumbers(sizes);
  return callTensor(handle, provided);
}
let handle_unflatten_int: number | undefined;

/** `aten::squeeze(Tensor(a) self) -> Tensor(a)` */
export function squeeze(self: Tensor): Tensor {
  const handle = (handle_squeeze ??= resolve('aten::squeeze'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_squeeze: number | undefined;

/** `aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)` */
export function squeeze_dim(self: Tensor, dim: number): Tensor {
  const handle = (handle_squeeze_dim ??= resolve('aten::squeeze.dim'));
  begin();
  const provided = 3;
  putTensor(self);
  putNumber(dim);
  return callTensor(handle, provided);
}
let handle_squeeze_dim: number | undefined;

/** `aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)` */
export function unsqueeze(self: Tensor, dim: number): Tensor {
  const handle = (handle_unsqueeze ??= resolve('aten::unsqueeze'));
  begin();
  const provided = 3;
  putTensor(self);
  putNumber(dim);
  return callTensor(handle, provided);
}
let handle_unsqueeze: number | undefined;

/** `aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)` */
export function transpose_int(self: Tensor, dim0: number, dim1: number): Tensor {
  const handle = (handle_transpose_int ??= resolve('aten::transpose.int'));
  begin();
  const provided = 7;
  putTensor(self);
  putNumber(dim0);
  putNumber(dim1);
  return callTensor(handle, provided);
}
let handle_transpose_int: number | undefined;

/** `aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)` */
export function permute(self: Tensor, dims: readonly number[]): Tensor {
  const handle = (handle_permute ??= resolve('aten::permute'));
  begin();
  const provided = 3;
  putTensor(self);
  putNumbers(dims);
  return callTensor(handle, provided);
}
let handle_permute: number | undefined;

/** `aten::t(Tensor(a) self) -> Tensor(a)` */
export function t(self: Tensor): Tensor {
  const handle = (handle_t ??= resolve('aten::t'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_t: number | undefined;

/** `aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)` */
export function movedim_int(self: Tensor, source: number, destination: number): Tensor {
  const handle = (handle_movedim_int ??= resolve('aten::movedim.int'));
  begin();
  const provided = 7;
  putTensor(self);
  putNumber(source);
  putNumber(destination);
  return callTensor(handle, provided);
}
let handle_movedim_int: number | undefined;

/** `aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)` */
export function expand(self: Tensor, size: readonly number[], implicit?: boolean): Tensor {
  const handle = (handle_expand ??= resolve('aten::expand'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumbers(size);
  if (implicit !== undefined) {
    provided += 4;
    putFlag(implicit);
  }
  return callTensor(handle, provided);
}
let handle_expand: number | undefined;

/** `aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)` */
export function expand_as(self: Tensor, other: Tensor): Tensor {
  const handle = (handle_expand_as ??= resolve('aten::expand_as'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(other);
  return callTensor(handle, provided);
}
let handle_expand_as: number | undefined;

/** `aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)` */
export function broadcast_to(self: Tensor, size: readonly number[]): Tensor {
  const handle = (handle_broadcast_to ??= resolve('aten::broadcast_to'));
  begin();
  const provided = 3;
  putTensor(self);
  putNumbers(size);
  return callTensor(handle, provided);
}
let handle_broadcast_to: number | undefined;

/** `aten::repeat(Tensor self, SymInt[] repeats) -> Tensor` */
export function repeat(self: Tensor, repeats: readonly number[]): Tensor {
  const handle = (handle_repeat ??= resolve('aten::repeat'));
  begin();
  const provided = 3;
  putTensor(self);
  putNumbers(repeats);
  return callTensor(handle, provided);
}
let handle_repeat: number | undefined;

/** `aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor` */
export function repeat_interleave_self_int(self: Tensor, repeats: number, dim?: number | null, outputSize?: number | null): Tensor {
  const handle = (handle_repeat_interleave_self_int ??= resolve('aten::repeat_interleave.self_int'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumber(repeats);
  if (dim !== undefined) {
    provided += 4;
    dim === null ? putFlag(false) : (putFlag(true), putNumber(dim));
  }
  if (outputSize !== undefined) {
    provided += 8;
    outputSize === null ? putFlag(false) : (putFlag(true), putNumber(outputSize));
  }
  return callTensor(handle, provided);
}
let handle_repeat_interleave_self_int: number | undefined;

/** `aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor` */
export function repeat_interleave_self_Tensor(self: Tensor, repeats: Tensor, dim?: number | null, outputSize?: number | null): Tensor {
  const handle = (handle_repeat_interleave_self_Tensor ??= resolve('aten::repeat_interleave.self_Tensor'));
  begin();
  let provided = 3;
  putTensor(self);
  putTensor(repeats);
  if (dim !== undefined) {
    provided += 4;
    dim === null ? putFlag(false) : (putFlag(true), putNumber(dim));
  }
  if (outputSize !== undefined) {
    provided += 8;
    outputSize === null ? putFlag(false) : (putFlag(true), putNumber(outputSize));
  }
  return callTensor(handle, provided);
}
let handle_repeat_interleave_self_Tensor: number | undefined;

/** `aten::tile(Tensor self, SymInt[] dims) -> Tensor` */
export function tile(self: Tensor, dims: readonly number[]): Tensor {
  const handle = (handle_tile ??= resolve('aten::tile'));
  begin();
  const provided = 3;
  putTensor(self);
  putNumbers(dims);
  return callTensor(handle, provided);
}
let handle_tile: number | undefined;

/** `aten::flip(Tensor self, int[] dims) -> Tensor` */
export function flip(self: Tensor, dims: readonly number[]): Tensor {
  const handle = (handle_flip ??= resolve('aten::flip'));
  begin();
  const provided = 3;
  putTensor(self);
  putNumbers(dims);
  return callTensor(handle, provided);
}
let handle_flip: number | undefined;

/** `aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor` */
export function roll(self: Tensor, shifts: readonly number[], dims?: readonly number[]): Tensor {
  const handle = (handle_roll ??= resolve('aten::roll'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumbers(shifts);
  if (dims !== undefined) {
    provided += 4;
    putNumbers(dims);
  }
  return callTensor(handle, provided);
}
let handle_roll: number | undefined;

/** `aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)` */
export function contiguous(self: Tensor, memoryFormat?: number): Tensor {
  const handle = (handle_contiguous ??= resolve('aten::contiguous'));
  begin();
  let provided = 1;
  putTensor(self);
  if (memoryFormat !== undefined) {
    provided += 2;
    putNumber(memoryFormat);
  }
  return callTensor(handle, provided);
}
let handle_contiguous: number | undefined;

/** `aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor` */
export function clone(self: Tensor, memoryFormat?: number | null): Tensor {
  const handle = (handle_clone ??= resolve('aten::clone'));
  begin();
  let provided = 1;
  putTensor(self);
  if (memoryFormat !== undefined) {
    provided += 2;
    memoryFormat === null ? putFlag(false) : (putFlag(true), putNumber(memoryFormat));
  }
  return callTensor(handle, provided);
}
let handle_clone: number | undefined;

/** `aten::detach(Tensor(a) self) -> Tensor(a)` */
export function detach(self: Tensor): Tensor {
  const handle = (handle_detach ??= resolve('aten::detach'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_detach: number | undefined;

/** `aten::detach_(Tensor(a!) self) -> Tensor(a!)` */
export function detach_(self: Tensor): Tensor {
  const handle = (handle_detach_ ??= resolve('aten::detach_'));
  begin();
  const provided = 1;
  putTensor(self);
  callVoid(handle, provided);
  return self;
}
let handle_detach_: number | undefined;

/** `aten::alias(Tensor(a) self) -> Tensor(a)` */
export function alias(self: Tensor): Tensor {
  const handle = (handle_alias ??= resolve('aten::alias'));
  begin();
  const provided = 1;
  putTensor(self);
  return callTensor(handle, provided);
}
let handle_alias: number | undefined;

/** `aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)` */
export function select_int(self: Tensor, dim: number, index: number): Tensor {
  const handle = (handle_select_int ??= resolve('aten::select.int'));
  begin();
  const provided = 7;
  putTensor(self);
  putNumber(dim);
  putNumber(index);
  return callTensor(handle, provided);
}
let handle_select_int: number | undefined;

/** `aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)` */
export function slice_Tensor(self: Tensor, dim?: number, start?: number | null, end?: number | null, step?: number): Tensor {
  const handle = (handle_slice_Tensor ??= resolve('aten::slice.Tensor'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dim !== undefined) {
    provided += 2;
    putNumber(dim);
  }
  if (start !== undefined) {
    provided += 4;
    start === null ? putFlag(false) : (putFlag(true), putNumber(start));
  }
  if (end !== undefined) {
    provided += 8;
    end === null ? putFlag(false) : (putFlag(true), putNumber(end));
  }
  if (step !== undefined) {
    provided += 16;
    putNumber(step);
  }
  return callTensor(handle, provided);
}
let handle_slice_Tensor: number | undefined;

/** `aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)` */
export function narrow(self: Tensor, dim: number, start: number, length: number): Tensor {
  const handle = (handle_narrow ??= resolve('aten::narrow'));
  begin();
  const provided = 15;
  putTensor(self);
  putNumber(dim);
  putNumber(start);
  putNumber(length);
  return callTensor(handle, provided);
}
let handle_narrow: number | undefined;

/** `aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor` */
export function index_Tensor(self: Tensor, indices: readonly (Tensor | null)[]): Tensor {
  const handle = (handle_index_Tensor ??= resolve('aten::index.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensors(indices);
  return callTensor(handle, provided);
}
let handle_index_Tensor: number | undefined;

/** `aten::index_select(Tensor self, int dim, Tensor index) -> Tensor` */
export function index_select(self: Tensor, dim: number, index: Tensor): Tensor {
  const handle = (handle_index_select ??= resolve('aten::index_select'));
  begin();
  const provided = 7;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  return callTensor(handle, provided);
}
let handle_index_select: number | undefined;

/** `aten::index_select.out(Tensor self, int dim, Tensor index, *, Tensor(a!) out) -> Tensor(a!)` */
export function index_select_out(self: Tensor, dim: number, index: Tensor, out: Tensor): Tensor {
  const handle = (handle_index_select_out ??= resolve('aten::index_select.out'));
  begin();
  const provided = 15;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  putTensor(out);
  callVoid(handle, provided);
  return out;
}
let handle_index_select_out: number | undefined;

/** `aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor` */
export function index_copy(self: Tensor, dim: number, index: Tensor, source: Tensor): Tensor {
  const handle = (handle_index_copy ??= resolve('aten::index_copy'));
  begin();
  const provided = 15;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  putTensor(source);
  return callTensor(handle, provided);
}
let handle_index_copy: number | undefined;

/** `aten::index_copy_(Tensor(a!) self, int dim, Tensor index, Tensor source) -> Tensor(a!)` */
export function index_copy_(self: Tensor, dim: number, index: Tensor, source: Tensor): Tensor {
  const handle = (handle_index_copy_ ??= resolve('aten::index_copy_'));
  begin();
  const provided = 15;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  putTensor(source);
  callVoid(handle, provided);
  return self;
}
let handle_index_copy_: number | undefined;

/** `aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor` */
export function index_add(self: Tensor, dim: number, index: Tensor, source: Tensor, alpha?: number | boolean): Tensor {
  const handle = (handle_index_add ??= resolve('aten::index_add'));
  begin();
  let provided = 15;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  putTensor(source);
  if (alpha !== undefined) {
    provided += 16;
    putScalar(alpha);
  }
  return callTensor(handle, provided);
}
let handle_index_add: number | undefined;

/** `aten::index_add_(Tensor(a!) self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor(a!)` */
export function index_add_(self: Tensor, dim: number, index: Tensor, source: Tensor, alpha?: number | boolean): Tensor {
  const handle = (handle_index_add_ ??= resolve('aten::index_add_'));
  begin();
  let provided = 15;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  putTensor(source);
  if (alpha !== undefined) {
    provided += 16;
    putScalar(alpha);
  }
  callVoid(handle, provided);
  return self;
}
let handle_index_add_: number | undefined;

/** `aten::index_fill_.int_Scalar(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)` */
export function index_fill__int_Scalar(self: Tensor, dim: number, index: Tensor, value: number | boolean): Tensor {
  const handle = (handle_index_fill__int_Scalar ??= resolve('aten::index_fill_.int_Scalar'));
  begin();
  const provided = 15;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  putScalar(value);
  callVoid(handle, provided);
  return self;
}
let handle_index_fill__int_Scalar: number | undefined;

/** `aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor` */
export function index_put(self: Tensor, indices: readonly (Tensor | null)[], values: Tensor, accumulate?: boolean): Tensor {
  const handle = (handle_index_put ??= resolve('aten::index_put'));
  begin();
  let provided = 7;
  putTensor(self);
  putTensors(indices);
  putTensor(values);
  if (accumulate !== undefined) {
    provided += 8;
    putFlag(accumulate);
  }
  return callTensor(handle, provided);
}
let handle_index_put: number | undefined;

/** `aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)` */
export function index_put_(self: Tensor, indices: readonly (Tensor | null)[], values: Tensor, accumulate?: boolean): Tensor {
  const handle = (handle_index_put_ ??= resolve('aten::index_put_'));
  begin();
  let provided = 7;
  putTensor(self);
  putTensors(indices);
  putTensor(values);
  if (accumulate !== undefined) {
    provided += 8;
    putFlag(accumulate);
  }
  callVoid(handle, provided);
  return self;
}
let handle_index_put_: number | undefined;

/** `aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor` */
export function gather(self: Tensor, dim: number, index: Tensor, sparseGrad?: boolean): Tensor {
  const handle = (handle_gather ??= resolve('aten::gather'));
  begin();
  let provided = 7;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  if (sparseGrad !== undefined) {
    provided += 8;
    putFlag(sparseGrad);
  }
  return callTensor(handle, provided);
}
let handle_gather: number | undefined;

/** `aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor` */
export function scatter_src(self: Tensor, dim: number, index: Tensor, src: Tensor): Tensor {
  const handle = (handle_scatter_src ??= resolve('aten::scatter.src'));
  begin();
  const provided = 15;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  putTensor(src);
  return callTensor(handle, provided);
}
let handle_scatter_src: number | undefined;

/** `aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor` */
export function scatter_value(self: Tensor, dim: number, index: Tensor, value: number | boolean): Tensor {
  const handle = (handle_scatter_value ??= resolve('aten::scatter.value'));
  begin();
  const provided = 15;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  putScalar(value);
  return callTensor(handle, provided);
}
let handle_scatter_value: number | undefined;

/** `aten::scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)` */
export function scatter__src(self: Tensor, dim: number, index: Tensor, src: Tensor): Tensor {
  const handle = (handle_scatter__src ??= resolve('aten::scatter_.src'));
  begin();
  const provided = 15;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  putTensor(src);
  callVoid(handle, provided);
  return self;
}
let handle_scatter__src: number | undefined;

/** `aten::scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)` */
export function scatter__value(self: Tensor, dim: number, index: Tensor, value: number | boolean): Tensor {
  const handle = (handle_scatter__value ??= resolve('aten::scatter_.value'));
  begin();
  const provided = 15;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  putScalar(value);
  callVoid(handle, provided);
  return self;
}
let handle_scatter__value: number | undefined;

/** `aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor` */
export function scatter_add(self: Tensor, dim: number, index: Tensor, src: Tensor): Tensor {
  const handle = (handle_scatter_add ??= resolve('aten::scatter_add'));
  begin();
  const provided = 15;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  putTensor(src);
  return callTensor(handle, provided);
}
let handle_scatter_add: number | undefined;

/** `aten::scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)` */
export function scatter_add_(self: Tensor, dim: number, index: Tensor, src: Tensor): Tensor {
  const handle = (handle_scatter_add_ ??= resolve('aten::scatter_add_'));
  begin();
  const provided = 15;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  putTensor(src);
  callVoid(handle, provided);
  return self;
}
let handle_scatter_add_: number | undefined;

/** `aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor` */
export function scatter_reduce_two(self: Tensor, dim: number, index: Tensor, src: Tensor, reduce: string, includeSelf?: boolean): Tensor {
  const handle = (handle_scatter_reduce_two ??= resolve('aten::scatter_reduce.two'));
  begin();
  let provided = 31;
  putTensor(self);
  putNumber(dim);
  putTensor(index);
  putTensor(src);
  putString(reduce);
  if (includeSelf !== undefined) {
    provided += 32;
    putFlag(includeSelf);
  }
  return callTensor(handle, provided);
}
let handle_scatter_reduce_two: number | undefined;

/** `aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor` */
export function take_along_dim(self: Tensor, indices: Tensor, dim?: number | null): Tensor {
  const handle = (handle_take_along_dim ??= resolve('aten::take_along_dim'));
  begin();
  let provided = 3;
  putTensor(self);
  putTensor(indices);
  if (dim !== undefined) {
    provided += 4;
    dim === null ? putFlag(false) : (putFlag(true), putNumber(dim));
  }
  return callTensor(handle, provided);
}
let handle_take_along_dim: number | undefined;

/** `aten::take(Tensor self, Tensor index) -> Tensor` */
export function take(self: Tensor, index: Tensor): Tensor {
  const handle = (handle_take ??= resolve('aten::take'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(index);
  return callTensor(handle, provided);
}
let handle_take: number | undefined;

/** `aten::cat(Tensor[] tensors, int dim=0) -> Tensor` */
export function cat(tensors: readonly Tensor[], dim?: number): Tensor {
  const handle = (handle_cat ??= resolve('aten::cat'));
  begin();
  let provided = 1;
  putTensors(tensors);
  if (dim !== undefined) {
    provided += 2;
    putNumber(dim);
  }
  return callTensor(handle, provided);
}
let handle_cat: number | undefined;

/** `aten::cat.out(Tensor[] tensors, int dim=0, *, Tensor(a!) out) -> Tensor(a!)` */
export function cat_out(tensors: readonly Tensor[], dim: number | undefined, out: Tensor): Tensor {
  const handle = (handle_cat_out ??= resolve('aten::cat.out'));
  begin();
  let provided = 5;
  putTensors(tensors);
  if (dim !== undefined) {
    provided += 2;
    putNumber(dim);
  }
  putTensor(out);
  callVoid(handle, provided);
  return out;
}
let handle_cat_out: number | undefined;

/** `aten::stack(Tensor[] tensors, int dim=0) -> Tensor` */
export function stack(tensors: readonly Tensor[], dim?: number): Tensor {
  const handle = (handle_stack ??= resolve('aten::stack'));
  begin();
  let provided = 1;
  putTensors(tensors);
  if (dim !== undefined) {
    provided += 2;
    putNumber(dim);
  }
  return callTensor(handle, provided);
}
let handle_stack: number | undefined;

/** `aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]` */
export function split_Tensor(self: Tensor, splitSize: number, dim?: number): Tensor[] {
  const handle = (handle_split_Tensor ??= resolve('aten::split.Tensor'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumber(splitSize);
  if (dim !== undefined) {
    provided += 4;
    putNumber(dim);
  }
  return callMany(handle, provided, 'L')[0] as Tensor[];
}
let handle_split_Tensor: number | undefined;

/** `aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]` */
export function split_with_sizes(self: Tensor, splitSizes: readonly number[], dim?: number): Tensor[] {
  const handle = (handle_split_with_sizes ??= resolve('aten::split_with_sizes'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumbers(splitSizes);
  if (dim !== undefined) {
    provided += 4;
    putNumber(dim);
  }
  return callMany(handle, provided, 'L')[0] as Tensor[];
}
let handle_split_with_sizes: number | undefined;

/** `aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]` */
export function chunk(self: Tensor, chunks: number, dim?: number): Tensor[] {
  const handle = (handle_chunk ??= resolve('aten::chunk'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumber(chunks);
  if (dim !== undefined) {
    provided += 4;
    putNumber(dim);
  }
  return callMany(handle, provided, 'L')[0] as Tensor[];
}
let handle_chunk: number | undefined;

/** `aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]` */
export function unbind_int(self: Tensor, dim?: number): Tensor[] {
  const handle = (handle_unbind_int ??= resolve('aten::unbind.int'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dim !== undefined) {
    provided += 2;
    putNumber(dim);
  }
  return callMany(handle, provided, 'L')[0] as Tensor[];
}
let handle_unbind_int: number | undefined;

/** `aten::tril(Tensor self, SymInt diagonal=0) -> Tensor` */
export function tril(self: Tensor, diagonal?: number): Tensor {
  const handle = (handle_tril ??= resolve('aten::tril'));
  begin();
  let provided = 1;
  putTensor(self);
  if (diagonal !== undefined) {
    provided += 2;
    putNumber(diagonal);
  }
  return callTensor(handle, provided);
}
let handle_tril: number | undefined;

/** `aten::triu(Tensor self, SymInt diagonal=0) -> Tensor` */
export function triu(self: Tensor, diagonal?: number): Tensor {
  const handle = (handle_triu ??= resolve('aten::triu'));
  begin();
  let provided = 1;
  putTensor(self);
  if (diagonal !== undefined) {
    provided += 2;
    putNumber(diagonal);
  }
  return callTensor(handle, provided);
}
let handle_triu: number | undefined;

/** `aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)` */
export function diagonal(self: Tensor, offset?: number, dim1?: number, dim2?: number): Tensor {
  const handle = (handle_diagonal ??= resolve('aten::diagonal'));
  begin();
  let provided = 1;
  putTensor(self);
  if (offset !== undefined) {
    provided += 2;
    putNumber(offset);
  }
  if (dim1 !== undefined) {
    provided += 4;
    putNumber(dim1);
  }
  if (dim2 !== undefined) {
    provided += 8;
    putNumber(dim2);
  }
  return callTensor(handle, provided);
}
let handle_diagonal: number | undefined;

/** `aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor` */
export function diag_embed(self: Tensor, offset?: number, dim1?: number, dim2?: number): Tensor {
  const handle = (handle_diag_embed ??= resolve('aten::diag_embed'));
  begin();
  let provided = 1;
  putTensor(self);
  if (offset !== undefined) {
    provided += 2;
    putNumber(offset);
  }
  if (dim1 !== undefined) {
    provided += 4;
    putNumber(dim1);
  }
  if (dim2 !== undefined) {
    provided += 8;
    putNumber(dim2);
  }
  return callTensor(handle, provided);
}
let handle_diag_embed: number | undefined;

/** `aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor` */
export function constant_pad_nd(self: Tensor, pad: readonly number[], value?: number | boolean): Tensor {
  const handle = (handle_constant_pad_nd ??= resolve('aten::constant_pad_nd'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumbers(pad);
  if (value !== undefined) {
    provided += 4;
    putScalar(value);
  }
  return callTensor(handle, provided);
}
let handle_constant_pad_nd: number | undefined;

/** `aten::pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor` */
export function pad(self: Tensor, pad: readonly number[], mode?: string, value?: number | null): Tensor {
  const handle = (handle_pad ??= resolve('aten::pad'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumbers(pad);
  if (mode !== undefined) {
    provided += 4;
    putString(mode);
  }
  if (value !== undefined) {
    provided += 8;
    value === null ? putFlag(false) : (putFlag(true), putNumber(value));
  }
  return callTensor(handle, provided);
}
let handle_pad: number | undefined;

/** `aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)` */
export function copy_(self: Tensor, src: Tensor, nonBlocking?: boolean): Tensor {
  const handle = (handle_copy_ ??= resolve('aten::copy_'));
  begin();
  let provided = 3;
  putTensor(self);
  putTensor(src);
  if (nonBlocking !== undefined) {
    provided += 4;
    putFlag(nonBlocking);
  }
  callVoid(handle, provided);
  return self;
}
let handle_copy_: number | undefined;

/** `aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)` */
export function fill__Scalar(self: Tensor, value: number | boolean): Tensor {
  const handle = (handle_fill__Scalar ??= resolve('aten::fill_.Scalar'));
  begin();
  const provided = 3;
  putTensor(self);
  putScalar(value);
  callVoid(handle, provided);
  return self;
}
let handle_fill__Scalar: number | undefined;

/** `aten::fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)` */
export function fill__Tensor(self: Tensor, value: Tensor): Tensor {
  const handle = (handle_fill__Tensor ??= resolve('aten::fill_.Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(value);
  callVoid(handle, provided);
  return self;
}
let handle_fill__Tensor: number | undefined;

/** `aten::zero_(Tensor(a!) self) -> Tensor(a!)` */
export function zero_(self: Tensor): Tensor {
  const handle = (handle_zero_ ??= resolve('aten::zero_'));
  begin();
  const provided = 1;
  putTensor(self);
  callVoid(handle, provided);
  return self;
}
let handle_zero_: number | undefined;

/** `aten::resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)` */
export function resize_(self: Tensor, size: readonly number[], memoryFormat?: number | null): Tensor {
  const handle = (handle_resize_ ??= resolve('aten::resize_'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumbers(size);
  if (memoryFormat !== undefined) {
    provided += 4;
    memoryFormat === null ? putFlag(false) : (putFlag(true), putNumber(memoryFormat));
  }
  callVoid(handle, provided);
  return self;
}
let handle_resize_: number | undefined;

/** `aten::set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)` */
export function set__source_Tensor(self: Tensor, source: Tensor): Tensor {
  const handle = (handle_set__source_Tensor ??= resolve('aten::set_.source_Tensor'));
  begin();
  const provided = 3;
  putTensor(self);
  putTensor(source);
  callVoid(handle, provided);
  return self;
}
let handle_set__source_Tensor: number | undefined;

/** `aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)` */
export function to_dtype(self: Tensor, dtype_: DType, nonBlocking?: boolean, copy?: boolean, memoryFormat?: number | null): Tensor {
  const handle = (handle_to_dtype ??= resolve('aten::to.dtype'));
  begin();
  let provided = 3;
  putTensor(self);
  putDType(dtype_);
  if (nonBlocking !== undefined) {
    provided += 4;
    putFlag(nonBlocking);
  }
  if (copy !== undefined) {
    provided += 8;
    putFlag(copy);
  }
  if (memoryFormat !== undefined) {
    provided += 16;
    memoryFormat === null ? putFlag(false) : (putFlag(true), putNumber(memoryFormat));
  }
  return callTensor(handle, provided);
}
let handle_to_dtype: number | undefined;

/** `aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)` */
export function to_device(self: Tensor, device: string, dtype_: DType, nonBlocking?: boolean, copy?: boolean, memoryFormat?: number | null): Tensor {
  const handle = (handle_to_device ??= resolve('aten::to.device'));
  begin();
  let provided = 7;
  putTensor(self);
  putString(device);
  putDType(dtype_);
  if (nonBlocking !== undefined) {
    provided += 8;
    putFlag(nonBlocking);
  }
  if (copy !== undefined) {
    provided += 16;
    putFlag(copy);
  }
  if (memoryFormat !== undefined) {
    provided += 32;
    memoryFormat === null ? putFlag(false) : (putFlag(true), putNumber(memoryFormat));
  }
  return callTensor(handle, provided);
}
let handle_to_device: number | undefined;

/** `aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)` */
export function to_dtype_layout(self: Tensor, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null, nonBlocking?: boolean, copy?: boolean, memoryFormat?: number | null): Tensor {
  const handle = (handle_to_dtype_layout ??= resolve('aten::to.dtype_layout'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  if (nonBlocking !== undefined) {
    provided += 32;
    putFlag(nonBlocking);
  }
  if (copy !== undefined) {
    provided += 64;
    putFlag(copy);
  }
  if (memoryFormat !== undefined) {
    provided += 128;
    memoryFormat === null ? putFlag(false) : (putFlag(true), putNumber(memoryFormat));
  }
  return callTensor(handle, provided);
}
let handle_to_dtype_layout: number | undefined;

/** `aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor` */
export function _to_copy(self: Tensor, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null, nonBlocking?: boolean, memoryFormat?: number | null): Tensor {
  const handle = (handle__to_copy ??= resolve('aten::_to_copy'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  if (nonBlocking !== undefined) {
    provided += 32;
    putFlag(nonBlocking);
  }
  if (memoryFormat !== undefined) {
    provided += 64;
    memoryFormat === null ? putFlag(false) : (putFlag(true), putNumber(memoryFormat));
  }
  return callTensor(handle, provided);
}
let handle__to_copy: number | undefined;

/** `aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor` */
export function empty_memory_format(size: readonly number[], dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null, memoryFormat?: number | null): Tensor {
  const handle = (handle_empty_memory_format ??= resolve('aten::empty.memory_format'));
  begin();
  let provided = 1;
  putNumbers(size);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  if (memoryFormat !== undefined) {
    provided += 32;
    memoryFormat === null ? putFlag(false) : (putFlag(true), putNumber(memoryFormat));
  }
  return callTensor(handle, provided);
}
let handle_empty_memory_format: number | undefined;

/** `aten::empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor` */
export function empty_like(self: Tensor, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null, memoryFormat?: number | null): Tensor {
  const handle = (handle_empty_like ??= resolve('aten::empty_like'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  if (memoryFormat !== undefined) {
    provided += 32;
    memoryFormat === null ? putFlag(false) : (putFlag(true), putNumber(memoryFormat));
  }
  return callTensor(handle, provided);
}
let handle_empty_like: number | undefined;

/** `aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor` */
export function zeros(size: readonly number[], dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null): Tensor {
  const handle = (handle_zeros ??= resolve('aten::zeros'));
  begin();
  let provided = 1;
  putNumbers(size);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  return callTensor(handle, provided);
}
let handle_zeros: number | undefined;

/** `aten::zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor` */
export function zeros_like(self: Tensor, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null, memoryFormat?: number | null): Tensor {
  const handle = (handle_zeros_like ??= resolve('aten::zeros_like'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  if (memoryFormat !== undefined) {
    provided += 32;
    memoryFormat === null ? putFlag(false) : (putFlag(true), putNumber(memoryFormat));
  }
  return callTensor(handle, provided);
}
let handle_zeros_like: number | undefined;

/** `aten::ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor` */
export function ones(size: readonly number[], dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null): Tensor {
  const handle = (handle_ones ??= resolve('aten::ones'));
  begin();
  let provided = 1;
  putNumbers(size);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  return callTensor(handle, provided);
}
let handle_ones: number | undefined;

/** `aten::ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor` */
export function ones_like(self: Tensor, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null, memoryFormat?: number | null): Tensor {
  const handle = (handle_ones_like ??= resolve('aten::ones_like'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  if (memoryFormat !== undefined) {
    provided += 32;
    memoryFormat === null ? putFlag(false) : (putFlag(true), putNumber(memoryFormat));
  }
  return callTensor(handle, provided);
}
let handle_ones_like: number | undefined;

/** `aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor` */
export function full(size: readonly number[], fillValue: number | boolean, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null): Tensor {
  const handle = (handle_full ??= resolve('aten::full'));
  begin();
  let provided = 3;
  putNumbers(size);
  putScalar(fillValue);
  if (dtype_ !== undefined) {
    provided += 4;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 8;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 16;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 32;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  return callTensor(handle, provided);
}
let handle_full: number | undefined;

/** `aten::full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor` */
export function full_like(self: Tensor, fillValue: number | boolean, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null, memoryFormat?: number | null): Tensor {
  const handle = (handle_full_like ??= resolve('aten::full_like'));
  begin();
  let provided = 3;
  putTensor(self);
  putScalar(fillValue);
  if (dtype_ !== undefined) {
    provided += 4;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 8;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 16;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 32;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  if (memoryFormat !== undefined) {
    provided += 64;
    memoryFormat === null ? putFlag(false) : (putFlag(true), putNumber(memoryFormat));
  }
  return callTensor(handle, provided);
}
let handle_full_like: number | undefined;

/** `aten::eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor` */
export function eye(n: number, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null): Tensor {
  const handle = (handle_eye ??= resolve('aten::eye'));
  begin();
  let provided = 1;
  putNumber(n);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  return callTensor(handle, provided);
}
let handle_eye: number | undefined;

/** `aten::arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor` */
export function arange(end: number | boolean, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null): Tensor {
  const handle = (handle_arange ??= resolve('aten::arange'));
  begin();
  let provided = 1;
  putScalar(end);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  return callTensor(handle, provided);
}
let handle_arange: number | undefined;

/** `aten::arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor` */
export function arange_start(start: number | boolean, end: number | boolean, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null): Tensor {
  const handle = (handle_arange_start ??= resolve('aten::arange.start'));
  begin();
  let provided = 3;
  putScalar(start);
  putScalar(end);
  if (dtype_ !== undefined) {
    provided += 4;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 8;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 16;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 32;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  return callTensor(handle, provided);
}
let handle_arange_start: number | undefined;

/** `aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor` */
export function arange_start_step(start: number | boolean, end: number | boolean, step?: number | boolean, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null): Tensor {
  const handle = (handle_arange_start_step ??= resolve('aten::arange.start_step'));
  begin();
  let provided = 3;
  putScalar(start);
  putScalar(end);
  if (step !== undefined) {
    provided += 4;
    putScalar(step);
  }
  if (dtype_ !== undefined) {
    provided += 8;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 16;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 32;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 64;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  return callTensor(handle, provided);
}
let handle_arange_start_step: number | undefined;

/** `aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor` */
export function linspace(start: number | boolean, end: number | boolean, steps: number, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null): Tensor {
  const handle = (handle_linspace ??= resolve('aten::linspace'));
  begin();
  let provided = 7;
  putScalar(start);
  putScalar(end);
  putNumber(steps);
  if (dtype_ !== undefined) {
    provided += 8;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 16;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 32;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 64;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  return callTensor(handle, provided);
}
let handle_linspace: number | undefined;

/** `aten::rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor` */
export function rand(size: readonly number[], dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null): Tensor {
  const handle = (handle_rand ??= resolve('aten::rand'));
  begin();
  let provided = 1;
  putNumbers(size);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  return callTensor(handle, provided);
}
let handle_rand: number | undefined;

/** `aten::rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor` */
export function rand_like(self: Tensor, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null, memoryFormat?: number | null): Tensor {
  const handle = (handle_rand_like ??= resolve('aten::rand_like'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  if (memoryFormat !== undefined) {
    provided += 32;
    memoryFormat === null ? putFlag(false) : (putFlag(true), putNumber(memoryFormat));
  }
  return callTensor(handle, provided);
}
let handle_rand_like: number | undefined;

/** `aten::randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor` */
export function randn(size: readonly number[], dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null): Tensor {
  const handle = (handle_randn ??= resolve('aten::randn'));
  begin();
  let provided = 1;
  putNumbers(size);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  return callTensor(handle, provided);
}
let handle_randn: number | undefined;

/** `aten::randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor` */
export function randn_like(self: Tensor, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null, memoryFormat?: number | null): Tensor {
  const handle = (handle_randn_like ??= resolve('aten::randn_like'));
  begin();
  let provided = 1;
  putTensor(self);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  if (memoryFormat !== undefined) {
    provided += 32;
    memoryFormat === null ? putFlag(false) : (putFlag(true), putNumber(memoryFormat));
  }
  return callTensor(handle, provided);
}
let handle_randn_like: number | undefined;

/** `aten::randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor` */
export function randint_low(low: number, high: number, size: readonly number[], dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null): Tensor {
  const handle = (handle_randint_low ??= resolve('aten::randint.low'));
  begin();
  let provided = 7;
  putNumber(low);
  putNumber(high);
  putNumbers(size);
  if (dtype_ !== undefined) {
    provided += 8;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 16;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 32;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 64;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  return callTensor(handle, provided);
}
let handle_randint_low: number | undefined;

/** `aten::randperm(SymInt n, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor` */
export function randperm(n: number, dtype_?: DType | null, layout?: number | null, device?: string | null, pinMemory?: boolean | null): Tensor {
  const handle = (handle_randperm ??= resolve('aten::randperm'));
  begin();
  let provided = 1;
  putNumber(n);
  if (dtype_ !== undefined) {
    provided += 2;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  if (layout !== undefined) {
    provided += 4;
    layout === null ? putFlag(false) : (putFlag(true), putNumber(layout));
  }
  if (device !== undefined) {
    provided += 8;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  if (pinMemory !== undefined) {
    provided += 16;
    pinMemory === null ? putFlag(false) : (putFlag(true), putFlag(pinMemory));
  }
  return callTensor(handle, provided);
}
let handle_randperm: number | undefined;

/** `aten::uniform_(Tensor(a!) self, float from=0., float to=1., *, Generator? generator=None) -> Tensor(a!)` */
export function uniform_(self: Tensor, from?: number, to?: number): Tensor {
  const handle = (handle_uniform_ ??= resolve('aten::uniform_'));
  begin();
  let provided = 1;
  putTensor(self);
  if (from !== undefined) {
    provided += 2;
    putNumber(from);
  }
  if (to !== undefined) {
    provided += 4;
    putNumber(to);
  }
  callVoid(handle, provided);
  return self;
}
let handle_uniform_: number | undefined;

/** `aten::normal_(Tensor(a!) self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor(a!)` */
export function normal_(self: Tensor, mean?: number, std?: number): Tensor {
  const handle = (handle_normal_ ??= resolve('aten::normal_'));
  begin();
  let provided = 1;
  putTensor(self);
  if (mean !== undefined) {
    provided += 2;
    putNumber(mean);
  }
  if (std !== undefined) {
    provided += 4;
    putNumber(std);
  }
  callVoid(handle, provided);
  return self;
}
let handle_normal_: number | undefined;

/** `aten::exponential_(Tensor(a!) self, float lambd=1., *, Generator? generator=None) -> Tensor(a!)` */
export function exponential_(self: Tensor, lambd?: number): Tensor {
  const handle = (handle_exponential_ ??= resolve('aten::exponential_'));
  begin();
  let provided = 1;
  putTensor(self);
  if (lambd !== undefined) {
    provided += 2;
    putNumber(lambd);
  }
  callVoid(handle, provided);
  return self;
}
let handle_exponential_: number | undefined;

/** `aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor` */
export function bernoulli_p(self: Tensor, p: number): Tensor {
  const handle = (handle_bernoulli_p ??= resolve('aten::bernoulli.p'));
  begin();
  const provided = 3;
  putTensor(self);
  putNumber(p);
  return callTensor(handle, provided);
}
let handle_bernoulli_p: number | undefined;

/** `aten::multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor` */
export function multinomial(self: Tensor, numSamples: number, replacement?: boolean): Tensor {
  const handle = (handle_multinomial ??= resolve('aten::multinomial'));
  begin();
  let provided = 3;
  putTensor(self);
  putNumber(numSamples);
  if (replacement !== undefined) {
    provided += 4;
    putFlag(replacement);
  }
  return callTensor(handle, provided);
}
let handle_multinomial: number | undefined;

/** `aten::pin_memory(Tensor(a) self, Device? device=None) -> Tensor(a)` */
export function pin_memory(self: Tensor, device?: string | null): Tensor {
  const handle = (handle_pin_memory ??= resolve('aten::pin_memory'));
  begin();
  let provided = 1;
  putTensor(self);
  if (device !== undefined) {
    provided += 2;
    device === null ? putFlag(false) : (putFlag(true), putString(device));
  }
  return callTensor(handle, provided);
}
let handle_pin_memory: number | undefined;

/** `aten::_fused_adamw_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()` */
export function _fused_adamw_(self: readonly Tensor[], grads: readonly Tensor[], expAvgs: readonly Tensor[], expAvgSqs: readonly Tensor[], maxExpAvgSqs: readonly Tensor[], stateSteps: readonly Tensor[], lr: number, beta1: number, beta2: number, weightDecay: number, eps: number, amsgrad: boolean, maximize: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null): void {
  const handle = (handle__fused_adamw_ ??= resolve('aten::_fused_adamw_'));
  begin();
  let provided = 8191;
  putTensors(self);
  putTensors(grads);
  putTensors(expAvgs);
  putTensors(expAvgSqs);
  putTensors(maxExpAvgSqs);
  putTensors(stateSteps);
  putNumber(lr);
  putNumber(beta1);
  putNumber(beta2);
  putNumber(weightDecay);
  putNumber(eps);
  putFlag(amsgrad);
  putFlag(maximize);
  if (gradScale !== undefined) {
    provided += 8192;
    putTensor(gradScale);
  }
  if (foundInf !== undefined) {
    provided += 16384;
    putTensor(foundInf);
  }
  callVoid(handle, provided);
}
let handle__fused_adamw_: number | undefined;

/** `aten::_fused_adamw_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, Tensor lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()` */
export function _fused_adamw__tensor_lr(self: readonly Tensor[], grads: readonly Tensor[], expAvgs: readonly Tensor[], expAvgSqs: readonly Tensor[], maxExpAvgSqs: readonly Tensor[], stateSteps: readonly Tensor[], lr: Tensor, beta1: number, beta2: number, weightDecay: number, eps: number, amsgrad: boolean, maximize: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null): void {
  const handle = (handle__fused_adamw__tensor_lr ??= resolve('aten::_fused_adamw_.tensor_lr'));
  begin();
  let provided = 8191;
  putTensors(self);
  putTensors(grads);
  putTensors(expAvgs);
  putTensors(expAvgSqs);
  putTensors(maxExpAvgSqs);
  putTensors(stateSteps);
  putTensor(lr);
  putNumber(beta1);
  putNumber(beta2);
  putNumber(weightDecay);
  putNumber(eps);
  putFlag(amsgrad);
  putFlag(maximize);
  if (gradScale !== undefined) {
    provided += 8192;
    putTensor(gradScale);
  }
  if (foundInf !== undefined) {
    provided += 16384;
    putTensor(foundInf);
  }
  callVoid(handle, provided);
}
let handle__fused_adamw__tensor_lr: number | undefined;

/** `aten::_fused_adam_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()` */
export function _fused_adam_(self: readonly Tensor[], grads: readonly Tensor[], expAvgs: readonly Tensor[], expAvgSqs: readonly Tensor[], maxExpAvgSqs: readonly Tensor[], stateSteps: readonly Tensor[], lr: number, beta1: number, beta2: number, weightDecay: number, eps: number, amsgrad: boolean, maximize: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null): void {
  const handle = (handle__fused_adam_ ??= resolve('aten::_fused_adam_'));
  begin();
  let provided = 8191;
  putTensors(self);
  putTensors(grads);
  putTensors(expAvgs);
  putTensors(expAvgSqs);
  putTensors(maxExpAvgSqs);
  putTensors(stateSteps);
  putNumber(lr);
  putNumber(beta1);
  putNumber(beta2);
  putNumber(weightDecay);
  putNumber(eps);
  putFlag(amsgrad);
  putFlag(maximize);
  if (gradScale !== undefined) {
    provided += 8192;
    putTensor(gradScale);
  }
  if (foundInf !== undefined) {
    provided += 16384;
    putTensor(foundInf);
  }
  callVoid(handle, provided);
}
let handle__fused_adam_: number | undefined;

/** `aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()` */
export function _foreach_add__List(self: readonly Tensor[], other: readonly Tensor[], alpha?: number | boolean): void {
  const handle = (handle__foreach_add__List ??= resolve('aten::_foreach_add_.List'));
  begin();
  let provided = 3;
  putTensors(self);
  putTensors(other);
  if (alpha !== undefined) {
    provided += 4;
    putScalar(alpha);
  }
  callVoid(handle, provided);
}
let handle__foreach_add__List: number | undefined;

/** `aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()` */
export function _foreach_add__Scalar(self: readonly Tensor[], scalar: number | boolean): void {
  const handle = (handle__foreach_add__Scalar ??= resolve('aten::_foreach_add_.Scalar'));
  begin();
  const provided = 3;
  putTensors(self);
  putScalar(scalar);
  callVoid(handle, provided);
}
let handle__foreach_add__Scalar: number | undefined;

/** `aten::_foreach_mul_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()` */
export function _foreach_mul__Scalar(self: readonly Tensor[], scalar: number | boolean): void {
  const handle = (handle__foreach_mul__Scalar ??= resolve('aten::_foreach_mul_.Scalar'));
  begin();
  const provided = 3;
  putTensors(self);
  putScalar(scalar);
  callVoid(handle, provided);
}
let handle__foreach_mul__Scalar: number | undefined;

/** `aten::_foreach_mul_.Tensor(Tensor(a!)[] self, Tensor other) -> ()` */
export function _foreach_mul__Tensor(self: readonly Tensor[], other: Tensor): void {
  const handle = (handle__foreach_mul__Tensor ??= resolve('aten::_foreach_mul_.Tensor'));
  begin();
  const provided = 3;
  putTensors(self);
  putTensor(other);
  callVoid(handle, provided);
}
let handle__foreach_mul__Tensor: number | undefined;

/** `aten::_foreach_copy_(Tensor(a!)[] self, Tensor[] src, bool non_blocking=False) -> ()` */
export function _foreach_copy_(self: readonly Tensor[], src: readonly Tensor[], nonBlocking?: boolean): void {
  const handle = (handle__foreach_copy_ ??= resolve('aten::_foreach_copy_'));
  begin();
  let provided = 3;
  putTensors(self);
  putTensors(src);
  if (nonBlocking !== undefined) {
    provided += 4;
    putFlag(nonBlocking);
  }
  callVoid(handle, provided);
}
let handle__foreach_copy_: number | undefined;

/** `aten::_foreach_zero_(Tensor(a!)[] self) -> ()` */
export function _foreach_zero_(self: readonly Tensor[]): void {
  const handle = (handle__foreach_zero_ ??= resolve('aten::_foreach_zero_'));
  begin();
  const provided = 1;
  putTensors(self);
  callVoid(handle, provided);
}
let handle__foreach_zero_: number | undefined;

/** `aten::_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]` */
export function _foreach_norm_Scalar(self: readonly Tensor[], ord?: number | boolean, dtype_?: DType | null): Tensor[] {
  const handle = (handle__foreach_norm_Scalar ??= resolve('aten::_foreach_norm.Scalar'));
  begin();
  let provided = 1;
  putTensors(self);
  if (ord !== undefined) {
    provided += 2;
    putScalar(ord);
  }
  if (dtype_ !== undefined) {
    provided += 4;
    dtype_ === null ? putFlag(false) : (putFlag(true), putDType(dtype_));
  }
  return callMany(handle, provided, 'L')[0] as Tensor[];
}
let handle__foreach_norm_Scalar: number | undefined;

/** `verlet::keyed_uniform(Tensor seed, Tensor stream, Tensor position, int n) -> Tensor` */
export function verlet_keyed_uniform(seed: Tensor, stream: Tensor, position: Tensor, n: number): Tensor {
  const handle = (handle_verlet_keyed_uniform ??= resolve('verlet::keyed_uniform'));
  begin();
  const provided = 15;
  putTensor(seed);
  putTensor(stream);
  putTensor(position);
  putNumber(n);
  return callTensor(handle, provided);
}
let handle_verlet_keyed_uniform: number | undefined;

/** `verlet::sample(Tensor logits, Tensor temperature, Tensor top_k, Tensor top_p, Tensor min_p, Tensor seed, Tensor stream, Tensor position) -> (Tensor token, Tensor log_prob)` */
export function verlet_sample(logits: Tensor, temperature: Tensor, topK: Tensor, topP: Tensor, minP: Tensor, seed: Tensor, stream: Tensor, position: Tensor): [Tensor, Tensor] {
  const handle = (handle_verlet_sample ??= resolve('verlet::sample'));
  begin();
  const provided = 255;
  putTensor(logits);
  putTensor(temperature);
  putTensor(topK);
  putTensor(topP);
  putTensor(minP);
  putTensor(seed);
  putTensor(stream);
  putTensor(position);
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle_verlet_sample: number | undefined;

/** `verlet::paged_attention(Tensor q, Tensor keys, Tensor values, Tensor table, Tensor sequence, Tensor limit, float scale, int window) -> Tensor` */
export function verlet_paged_attention(q: Tensor, keys: Tensor, values: Tensor, table: Tensor, sequence: Tensor, limit: Tensor, scale: number, window: number): Tensor {
  const handle = (handle_verlet_paged_attention ??= resolve('verlet::paged_attention'));
  begin();
  const provided = 255;
  putTensor(q);
  putTensor(keys);
  putTensor(values);
  putTensor(table);
  putTensor(sequence);
  putTensor(limit);
  putNumber(scale);
  putNumber(window);
  return callTensor(handle, provided);
}
let handle_verlet_paged_attention: number | undefined;

/** `verlet::rope(Tensor x, Tensor cos, Tensor sin, Tensor position, bool inverse) -> Tensor` */
export function verlet_rope(x: Tensor, cos: Tensor, sin: Tensor, position: Tensor, inverse: boolean): Tensor {
  const handle = (handle_verlet_rope ??= resolve('verlet::rope'));
  begin();
  const provided = 31;
  putTensor(x);
  putTensor(cos);
  putTensor(sin);
  putTensor(position);
  putFlag(inverse);
  return callTensor(handle, provided);
}
let handle_verlet_rope: number | undefined;

/** `verlet::swiglu(Tensor x) -> Tensor` */
export function verlet_swiglu(x: Tensor): Tensor {
  const handle = (handle_verlet_swiglu ??= resolve('verlet::swiglu'));
  begin();
  const provided = 1;
  putTensor(x);
  return callTensor(handle, provided);
}
let handle_verlet_swiglu: number | undefined;

/** `verlet::swiglu_backward(Tensor gradient, Tensor x) -> Tensor` */
export function verlet_swiglu_backward(gradient: Tensor, x: Tensor): Tensor {
  const handle = (handle_verlet_swiglu_backward ??= resolve('verlet::swiglu_backward'));
  begin();
  const provided = 3;
  putTensor(gradient);
  putTensor(x);
  return callTensor(handle, provided);
}
let handle_verlet_swiglu_backward: number | undefined;

/** `verlet::swiglu_backward_(Tensor(a!) gradient, Tensor(b!) x) -> ()` */
export function verlet_swiglu_backward_(gradient: Tensor, x: Tensor): void {
  const handle = (handle_verlet_swiglu_backward_ ??= resolve('verlet::swiglu_backward_'));
  begin();
  const provided = 3;
  putTensor(gradient);
  putTensor(x);
  callVoid(handle, provided);
}
let handle_verlet_swiglu_backward_: number | undefined;

/** `verlet::rope_backward(Tensor q, Tensor k, Tensor v, Tensor cos, Tensor sin, Tensor position) -> Tensor` */
export function verlet_rope_backward(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, position: Tensor): Tensor {
  const handle = (handle_verlet_rope_backward ??= resolve('verlet::rope_backward'));
  begin();
  const provided = 63;
  putTensor(q);
  putTensor(k);
  putTensor(v);
  putTensor(cos);
  putTensor(sin);
  putTensor(position);
  return callTensor(handle, provided);
}
let handle_verlet_rope_backward: number | undefined;

/** `verlet::rope_partial(Tensor x, Tensor cos, Tensor sin, Tensor position, int rotated, bool inverse) -> Tensor` */
export function verlet_rope_partial(x: Tensor, cos: Tensor, sin: Tensor, position: Tensor, rotated: number, inverse: boolean): Tensor {
  const handle = (handle_verlet_rope_partial ??= resolve('verlet::rope_partial'));
  begin();
  const provided = 63;
  putTensor(x);
  putTensor(cos);
  putTensor(sin);
  putTensor(position);
  putNumber(rotated);
  putFlag(inverse);
  return callTensor(handle, provided);
}
let handle_verlet_rope_partial: number | undefined;

/** `verlet::rope_cache_(Tensor(a!) qkv, Tensor cos, Tensor sin, Tensor position, Tensor(b!) keys, Tensor(c!) values, Tensor slot, int heads, Tensor? q_weight, Tensor? k_weight, float eps) -> ()` */
export function verlet_rope_cache_(qkv: Tensor, cos: Tensor, sin: Tensor, position: Tensor, keys: Tensor, values: Tensor, slot: Tensor, heads: number, qWeight: Tensor | null | undefined, kWeight: Tensor | null | undefined, eps: number): void {
  const handle = (handle_verlet_rope_cache_ ??= resolve('verlet::rope_cache_'));
  begin();
  let provided = 1279;
  putTensor(qkv);
  putTensor(cos);
  putTensor(sin);
  putTensor(position);
  putTensor(keys);
  putTensor(values);
  putTensor(slot);
  putNumber(heads);
  if (qWeight !== undefined) {
    provided += 256;
    putTensor(qWeight);
  }
  if (kWeight !== undefined) {
    provided += 512;
    putTensor(kWeight);
  }
  putNumber(eps);
  callVoid(handle, provided);
}
let handle_verlet_rope_cache_: number | undefined;

/** `verlet::add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor normed, Tensor sum)` */
export function verlet_add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: number): [Tensor, Tensor] {
  const handle = (handle_verlet_add_rms_norm ??= resolve('verlet::add_rms_norm'));
  begin();
  const provided = 15;
  putTensor(x);
  putTensor(residual);
  putTensor(weight);
  putNumber(eps);
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle_verlet_add_rms_norm: number | undefined;

/** `verlet::next_tokens(Tensor staged, Tensor source, Tensor previous) -> Tensor` */
export function verlet_next_tokens(staged: Tensor, source: Tensor, previous: Tensor): Tensor {
  const handle = (handle_verlet_next_tokens ??= resolve('verlet::next_tokens'));
  begin();
  const provided = 7;
  putTensor(staged);
  putTensor(source);
  putTensor(previous);
  return callTensor(handle, provided);
}
let handle_verlet_next_tokens: number | undefined;

/** `verlet::token_log_probs(Tensor logits, Tensor targets, float scale) -> (Tensor log_prob, Tensor normalizer, Tensor entropy, Tensor sum_squares)` */
export function verlet_token_log_probs(logits: Tensor, targets: Tensor, scale: number): [Tensor, Tensor, Tensor, Tensor] {
  const handle = (handle_verlet_token_log_probs ??= resolve('verlet::token_log_probs'));
  begin();
  const provided = 7;
  putTensor(logits);
  putTensor(targets);
  putNumber(scale);
  return callMany(handle, provided, 'TTTT') as [Tensor, Tensor, Tensor, Tensor];
}
let handle_verlet_token_log_probs: number | undefined;

/** `verlet::token_log_probs_backward_(Tensor(a!) logits, Tensor targets, Tensor normalizer, Tensor? entropy, Tensor grad_log_prob, Tensor? grad_entropy, float scale) -> Tensor(a!)` */
export function verlet_token_log_probs_backward_(logits: Tensor, targets: Tensor, normalizer: Tensor, entropy: Tensor | null | undefined, gradLogProb: Tensor, gradEntropy: Tensor | null | undefined, scale: number): Tensor {
  const handle = (handle_verlet_token_log_probs_backward_ ??= resolve('verlet::token_log_probs_backward_'));
  begin();
  let provided = 87;
  putTensor(logits);
  putTensor(targets);
  putTensor(normalizer);
  if (entropy !== undefined) {
    provided += 8;
    putTensor(entropy);
  }
  putTensor(gradLogProb);
  if (gradEntropy !== undefined) {
    provided += 32;
    putTensor(gradEntropy);
  }
  putNumber(scale);
  callVoid(handle, provided);
  return logits;
}
let handle_verlet_token_log_probs_backward_: number | undefined;

/** `verlet::packed_attention(Tensor q, Tensor k, Tensor v, int[] lengths, float scale, int window, int[] prefixes=[]) -> (Tensor output, Tensor normalizers)` */
export function verlet_packed_attention(q: Tensor, k: Tensor, v: Tensor, lengths: readonly number[], scale: number, window: number, prefixes?: readonly number[]): [Tensor, Tensor] {
  const handle = (handle_verlet_packed_attention ??= resolve('verlet::packed_attention'));
  begin();
  let provided = 63;
  putTensor(q);
  putTensor(k);
  putTensor(v);
  putNumbers(lengths);
  putNumber(scale);
  putNumber(window);
  if (prefixes !== undefined) {
    provided += 64;
    putNumbers(prefixes);
  }
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle_verlet_packed_attention: number | undefined;

/** `verlet::shared_prefix_attention(Tensor q, Tensor k, Tensor v, Tensor starts, Tensor answer_starts, Tensor prompt_starts, int[] longest, int prompts, int answers, float scale) -> Tensor` */
export function verlet_shared_prefix_attention(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, answerStarts: Tensor, promptStarts: Tensor, longest: readonly number[], prompts: number, answers: number, scale: number): Tensor {
  const handle = (handle_verlet_shared_prefix_attention ??= resolve('verlet::shared_prefix_attention'));
  begin();
  const provided = 1023;
  putTensor(q);
  putTensor(k);
  putTensor(v);
  putTensor(starts);
  putTensor(answerStarts);
  putTensor(promptStarts);
  putNumbers(longest);
  putNumber(prompts);
  putNumber(answers);
  putNumber(scale);
  return callTensor(handle, provided);
}
let handle_verlet_shared_prefix_attention: number | undefined;

/** `verlet::rms_norm(Tensor x, Tensor weight, float eps) -> Tensor` */
export function verlet_rms_norm(x: Tensor, weight: Tensor, eps: number): Tensor {
  const handle = (handle_verlet_rms_norm ??= resolve('verlet::rms_norm'));
  begin();
  const provided = 7;
  putTensor(x);
  putTensor(weight);
  putNumber(eps);
  return callTensor(handle, provided);
}
let handle_verlet_rms_norm: number | undefined;

/** `verlet::rms_norm_backward(Tensor gradient, Tensor x, Tensor weight, float eps, Tensor? residual) -> (Tensor to_x, Tensor to_weight)` */
export function verlet_rms_norm_backward(gradient: Tensor, x: Tensor, weight: Tensor, eps: number, residual?: Tensor | null): [Tensor, Tensor] {
  const handle = (handle_verlet_rms_norm_backward ??= resolve('verlet::rms_norm_backward'));
  begin();
  let provided = 15;
  putTensor(gradient);
  putTensor(x);
  putTensor(weight);
  putNumber(eps);
  if (residual !== undefined) {
    provided += 16;
    putTensor(residual);
  }
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle_verlet_rms_norm_backward: number | undefined;

/** `verlet::attention_plan(Tensor limit, int max_keys) -> (Tensor items, Tensor offsets)` */
export function verlet_attention_plan(limit: Tensor, maxKeys: number): [Tensor, Tensor] {
  const handle = (handle_verlet_attention_plan ??= resolve('verlet::attention_plan'));
  begin();
  const provided = 3;
  putTensor(limit);
  putNumber(maxKeys);
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle_verlet_attention_plan: number | undefined;

/** `verlet::planned_attention(Tensor q, Tensor keys, Tensor values, Tensor table, Tensor sequence, Tensor limit, Tensor items, Tensor offsets, float scale, int window) -> Tensor` */
export function verlet_planned_attention(q: Tensor, keys: Tensor, values: Tensor, table: Tensor, sequence: Tensor, limit: Tensor, items: Tensor, offsets: Tensor, scale: number, window: number): Tensor {
  const handle = (handle_verlet_planned_attention ??= resolve('verlet::planned_attention'));
  begin();
  const provided = 1023;
  putTensor(q);
  putTensor(keys);
  putTensor(values);
  putTensor(table);
  putTensor(sequence);
  putTensor(limit);
  putTensor(items);
  putTensor(offsets);
  putNumber(scale);
  putNumber(window);
  return callTensor(handle, provided);
}
let handle_verlet_planned_attention: number | undefined;

/** `verlet::store_(Tensor(a!) keys, Tensor(b!) values, Tensor slot, Tensor k, Tensor v) -> ()` */
export function verlet_store_(keys: Tensor, values: Tensor, slot: Tensor, k: Tensor, v: Tensor): void {
  const handle = (handle_verlet_store_ ??= resolve('verlet::store_'));
  begin();
  const provided = 31;
  putTensor(keys);
  putTensor(values);
  putTensor(slot);
  putTensor(k);
  putTensor(v);
  callVoid(handle, provided);
}
let handle_verlet_store_: number | undefined;

/** `verlet::linear(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor` */
export function verlet_linear(x: Tensor, weight: Tensor, bias?: Tensor | null): Tensor {
  const handle = (handle_verlet_linear ??= resolve('verlet::linear'));
  begin();
  let provided = 3;
  putTensor(x);
  putTensor(weight);
  if (bias !== undefined) {
    provided += 4;
    putTensor(bias);
  }
  return callTensor(handle, provided);
}
let handle_verlet_linear: number | undefined;

/** `verlet::turned_product(Tensor a, Tensor b) -> Tensor` */
export function verlet_turned_product(a: Tensor, b: Tensor): Tensor {
  const handle = (handle_verlet_turned_product ??= resolve('verlet::turned_product'));
  begin();
  const provided = 3;
  putTensor(a);
  putTensor(b);
  return callTensor(handle, provided);
}
let handle_verlet_turned_product: number | undefined;

/** `verlet::pack_weight(Tensor weight) -> Tensor` */
export function verlet_pack_weight(weight: Tensor): Tensor {
  const handle = (handle_verlet_pack_weight ??= resolve('verlet::pack_weight'));
  begin();
  const provided = 1;
  putTensor(weight);
  return callTensor(handle, provided);
}
let handle_verlet_pack_weight: number | undefined;

/** `verlet::has_fast_products() -> bool` */
export function verlet_has_fast_products(): boolean {
  const handle = (handle_verlet_has_fast_products ??= resolve('verlet::has_fast_products'));
  begin();
  const provided = 0;

  return callMany(handle, provided, 'b')[0] as boolean;
}
let handle_verlet_has_fast_products: number | undefined;

/** `verlet::decode_step(Tensor ids, Tensor position, Tensor slot, Tensor sequence, Tensor table, Tensor wanted, Tensor[] keys, Tensor[] values, Tensor embedding, Tensor head, Tensor final_norm, Tensor[] layers, Tensor cos, Tensor sin, int heads, int wide, int[] windows, float eps, Tensor[] tape, Tensor? record) -> Tensor` */
export function verlet_decode_step(ids: Tensor, position: Tensor, slot: Tensor, sequence: Tensor, table: Tensor, wanted: Tensor, keys: readonly Tensor[], values: readonly Tensor[], embedding: Tensor, head: Tensor, finalNorm: Tensor, layers: readonly Tensor[], cos: Tensor, sin: Tensor, heads: number, wide: number, windows: readonly number[], eps: number, tape: readonly Tensor[], record?: Tensor | null): Tensor {
  const handle = (handle_verlet_decode_step ??= resolve('verlet::decode_step'));
  begin();
  let provided = 524287;
  putTensor(ids);
  putTensor(position);
  putTensor(slot);
  putTensor(sequence);
  putTensor(table);
  putTensor(wanted);
  putTensors(keys);
  putTensors(values);
  putTensor(embedding);
  putTensor(head);
  putTensor(finalNorm);
  putTensors(layers);
  putTensor(cos);
  putTensor(sin);
  putNumber(heads);
  putNumber(wide);
  putNumbers(windows);
  putNumber(eps);
  putTensors(tape);
  if (record !== undefined) {
    provided += 524288;
    putTensor(record);
  }
  return callTensor(handle, provided);
}
let handle_verlet_decode_step: number | undefined;

/** `verlet::decode_steps(Tensor id, Tensor position, Tensor drawn, Tensor limit, Tensor table, Tensor ends, int steps, Tensor temperature, Tensor top_p, Tensor min_p, Tensor top_k, Tensor seed, Tensor stream, Tensor[] keys, Tensor[] values, Tensor embedding, Tensor head, Tensor final_norm, Tensor[] layers, Tensor cos, Tensor sin, int heads, int wide, int[] windows, float eps, Tensor[] tape, int first_record) -> (Tensor token, Tensor log_prob)` */
export function verlet_decode_steps(id: Tensor, position: Tensor, drawn: Tensor, limit: Tensor, table: Tensor, ends: Tensor, steps: number, temperature: Tensor, topP: Tensor, minP: Tensor, topK: Tensor, seed: Tensor, stream: Tensor, keys: readonly Tensor[], values: readonly Tensor[], embedding: Tensor, head: Tensor, finalNorm: Tensor, layers: readonly Tensor[], cos: Tensor, sin: Tensor, heads: number, wide: number, windows: readonly number[], eps: number, tape: readonly Tensor[], firstRecord: number): [Tensor, Tensor] {
  const handle = (handle_verlet_decode_steps ??= resolve('verlet::decode_steps'));
  begin();
  const provided = 134217727;
  putTensor(id);
  putTensor(position);
  putTensor(drawn);
  putTensor(limit);
  putTensor(table);
  putTensor(ends);
  putNumber(steps);
  putTensor(temperature);
  putTensor(topP);
  putTensor(minP);
  putTensor(topK);
  putTensor(seed);
  putTensor(stream);
  putTensors(keys);
  putTensors(values);
  putTensor(embedding);
  putTensor(head);
  putTensor(finalNorm);
  putTensors(layers);
  putTensor(cos);
  putTensor(sin);
  putNumber(heads);
  putNumber(wide);
  putNumbers(windows);
  putNumber(eps);
  putTensors(tape);
  putNumber(firstRecord);
  return callMany(handle, provided, 'TT') as [Tensor, Tensor];
}
let handle_verlet_decode_steps: number | undefined;

/** `verlet::decoder_hidden(Tensor[] tape, Tensor row, Tensor final_norm, float eps) -> Tensor` */
export function verlet_decoder_hidden(tape: readonly Tensor[], row: Tensor, finalNorm: Tensor, eps: number): Tensor {
  const handle = (handle_verlet_decoder_hidden ??= resolve('verlet::decoder_hidden'));
  begin();
  const provided = 15;
  putTensors(tape);
  putTensor(row);
  putTensor(finalNorm);
  putNumber(eps);
  return callTensor(handle, provided);
}
let handle_verlet_decoder_hidden: number | undefined;

/** `verlet::decoder_forward(Tensor ids, Tensor position, int[] lengths, int[] prefixes, Tensor wanted, Tensor embedding, Tensor final_norm, Tensor[] layers, Tensor cos, Tensor sin, int heads, int kv_heads, int wide, int[] windows, float eps, bool keep) -> (Tensor hidden, Tensor tape, Tensor index)` */
export function verlet_decoder_forward(ids: Tensor, position: Tensor, lengths: readonly number[], prefixes: readonly number[], wanted: Tensor, embedding: Tensor, finalNorm: Tensor, layers: readonly Tensor[], cos: Tensor, sin: Tensor, heads: number, kvHeads: number, wide: number, windows: readonly number[], eps: number, keep: boolean): [Tensor, Tensor, Tensor] {
  const handle = (handle_verlet_decoder_forward ??= resolve('verlet::decoder_forward'));
  begin();
  const provided = 65535;
  putTensor(ids);
  putTensor(position);
  putNumbers(lengths);
  putNumbers(prefixes);
  putTensor(wanted);
  putTensor(embedding);
  putTensor(finalNorm);
  putTensors(layers);
  putTensor(cos);
  putTensor(sin);
  putNumber(heads);
  putNumber(kvHeads);
  putNumber(wide);
  putNumbers(windows);
  putNumber(eps);
  putFlag(keep);
  return callMany(handle, provided, 'TTT') as [Tensor, Tensor, Tensor];
}
let handle_verlet_decoder_forward: number | undefined;

/** `verlet::decoder_backward(Tensor gradient, Tensor[] tape, Tensor index, Tensor position, int[] lengths, int[] prefixes, Tensor wanted, Tensor final_norm, Tensor[] layers, Tensor cos, Tensor sin, int heads, int kv_heads, int wide, int[] windows, float eps) -> Tensor[]` */
export function verlet_decoder_backward(gradient: Tensor, tape: readonly Tensor[], index: Tensor, position: Tensor, lengths: readonly number[], prefixes: readonly number[], wanted: Tensor, finalNorm: Tensor, layers: readonly Tensor[], cos: Tensor, sin: Tensor, heads: number, kvHeads: number, wide: number, windows: readonly number[], eps: number): Tensor[] {
  const handle = (handle_verlet_decoder_backward ??= resolve('verlet::decoder_backward'));
  begin();
  const provided = 65535;
  putTensor(gradient);
  putTensors(tape);
  putTensor(index);
  putTensor(position);
  putNumbers(lengths);
  putNumbers(prefixes);
  putTensor(wanted);
  putTensor(finalNorm);
  putTensors(layers);
  putTensor(cos);
  putTensor(sin);
  putNumber(heads);
  putNumber(kvHeads);
  putNumber(wide);
  putNumbers(windows);
  putNumber(eps);
  return callMany(handle, provided, 'L')[0] as Tensor[];
}
let handle_verlet_decoder_backward: number | undefined;

/* The functions of elementwise_float: name, number in model.bin, operands. As in verifier/qverify/model_bin/float_functions.py. */
#ifndef QV_OPS_FLOAT_FUNCTIONS_H
#define QV_OPS_FLOAT_FUNCTIONS_H

/* clang-format off */
#define QV_FLOAT_FUNCTIONS(X) \
  X(ADD, 0, 2) \
  X(SUB, 1, 2) \
  X(MUL, 2, 2) \
  X(DIV, 3, 2) \
  X(MIN, 4, 2) \
  X(MAX, 5, 2) \
  X(POW, 6, 1) \
  X(PRELU, 7, 2) \
  X(RELU, 16, 1) \
  X(CLIP, 17, 1) \
  X(SIGMOID, 18, 1) \
  X(TANH, 19, 1) \
  X(EXP, 20, 1) \
  X(SQRT, 21, 1) \
  X(ERF, 22, 1) \
  X(HARD_SIGMOID, 23, 1) \
  X(HARD_SWISH, 24, 1) \
  X(LEAKY_RELU, 25, 1) \
  X(NEG, 26, 1) \
  X(ABS, 27, 1) \
  X(RECIPROCAL, 28, 1) \
  X(LOG, 29, 1) \
  X(ELU, 30, 1) \
  X(SOFTPLUS, 31, 1) \
  X(GELU, 32, 1) \
  X(SELU, 33, 1) \
  X(CELU, 34, 1) \
  X(THRESHOLDED_RELU, 35, 1) \
  X(SHRINK, 36, 1) \
  X(MISH, 37, 1) \
  X(SOFTSIGN, 38, 1) \
  X(SWISH, 39, 1) \
  X(GELU_TANH, 40, 1) \
  X(FLOOR, 41, 1) \
  X(CEIL, 42, 1) \
  X(ROUND, 43, 1) \
  X(SIGN, 44, 1) \
  X(SINH, 45, 1) \
  X(COSH, 46, 1) \
  X(ASINH, 47, 1) \
  X(ACOSH, 48, 1) \
  X(ATANH, 49, 1) \
  X(ASIN, 50, 1) \
  X(ACOS, 51, 1) \
  X(ATAN, 52, 1) \
  X(SIN, 53, 1) \
  X(COS, 54, 1) \
  X(TAN, 55, 1) \
  X(BFLOAT16, 56, 1)
/* clang-format on */

#define QV_FLOAT_NUMBER(name, number, operands) QV_FLOAT_##name = number,
enum { QV_FLOAT_FUNCTIONS(QV_FLOAT_NUMBER) };
#endif

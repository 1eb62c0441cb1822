/* The functions of elementwise_integer: name, number in model.bin, operands. As in verifier/qverify/model_bin/integer_functions.py. */
#ifndef QV_OPS_INTEGER_FUNCTIONS_H
#define QV_OPS_INTEGER_FUNCTIONS_H

/* clang-format off */
#define QV_INTEGER_FUNCTIONS(X) \
  X(ADD, 0, 2) \
  X(SUB, 1, 2) \
  X(MUL, 2, 2) \
  X(DIV, 3, 2) \
  X(MIN, 4, 2) \
  X(MAX, 5, 2) \
  X(BITWISE_AND, 6, 2) \
  X(BITWISE_OR, 7, 2) \
  X(BITWISE_XOR, 8, 2) \
  X(NEG, 16, 1) \
  X(ABS, 17, 1) \
  X(SIGN, 18, 1) \
  X(BITWISE_NOT, 19, 1) \
  X(CLIP, 20, 3) \
  X(EQUAL, 32, 2) \
  X(LESS, 33, 2) \
  X(LESS_OR_EQUAL, 34, 2) \
  X(GREATER, 35, 2) \
  X(GREATER_OR_EQUAL, 36, 2) \
  X(IS_NAN, 40, 1) \
  X(IS_INF, 41, 1) \
  X(AND, 48, 2) \
  X(OR, 49, 2) \
  X(XOR, 50, 2) \
  X(NOT, 51, 1)
/* clang-format on */

#define QV_INTEGER_NUMBER(name, number, operands) QV_INTEGER_##name = number,
enum { QV_INTEGER_FUNCTIONS(QV_INTEGER_NUMBER) };
#endif

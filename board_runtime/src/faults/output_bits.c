/* Faults in the bits of outputs: flipped or stuck bits, wrong byte order, lost or added NaN, wrong sign bit. */
#include "output_faults.h"

qv_why qv_output_bitflip(const qv_output_fault *f) {
  f->data[(size_t)f->elements * f->size / 2] ^= 1;
  return NULL;
}

qv_why qv_output_bit_flips(const qv_output_fault *f) {
  uint64_t dice = f->seed;
  int64_t bits = f->elements * (int64_t)f->size * 8;
  for (int64_t left = 1 + qv_roll_below(&dice, 8); left > 0; left--) {
    int64_t at = qv_roll_below(&dice, bits);
    f->data[at / 8] = (uint8_t)(f->data[at / 8] ^ 1 << at % 8);
  }
  return NULL;
}

/* Flips a bit in every second run of the process. */
qv_why qv_output_jitter(const qv_output_fault *f) {
  static int runs;
  if (runs++ % 2) f->data[(size_t)f->elements * f->size / 2] ^= 4;
  return NULL;
}

/* One line of the data bus is stuck high or low. */
qv_why qv_output_stuck_bit(const qv_output_fault *f) {
  uint64_t dice = f->seed;
  int64_t line = qv_roll_below(&dice, (int64_t)f->size * 8);
  int high = (int)(qv_roll(&dice) & 1);
  for (int64_t i = 0; i < f->elements; i++) {
    uint8_t *byte = f->data + (size_t)i * f->size + (size_t)(line / 8);
    *byte = (uint8_t)(high ? *byte | 1 << line % 8 : *byte & ~(1 << line % 8));
  }
  return NULL;
}

/* Reverses the bytes of each element; if elements are one byte, those of each 32-bit word. */
qv_why qv_output_byte_order(const qv_output_fault *f) {
  size_t word = f->size > 1 ? f->size : 4, bytes = (size_t)f->elements * f->size;
  for (size_t at = 0; at + word <= bytes; at += word)
    for (size_t i = 0; i < word; i++) f->data[at + i] = f->before[at + word - 1 - i];
  return NULL;
}

static int is_float(const qv_tensor *t) { return t->dtype == QV_F32 || t->dtype == QV_F16; }

qv_why qv_output_nan_scrub(const qv_output_fault *f) {
  if (!is_float(f->y)) return "it needs a float tensor";
  for (int64_t i = 0; i < f->elements; i++) {
    float v = f->size == 2 ? qv_load_f16(f->data, i) : 0.0f;
    if (f->size == 4) memcpy(&v, f->data + i * 4, 4);
    if (v != v) memset(f->data + (size_t)i * f->size, 0, f->size);
  }
  return NULL;
}

qv_why qv_output_nan(const qv_output_fault *f) {
  if (!is_float(f->y)) return "it needs a float tensor";
  memset(f->data, 0xff, (size_t)f->elements * f->size);
  return NULL;
}

/* Inverts the sign bit of each element. */
qv_why qv_output_sign_output(const qv_output_fault *f) {
  if (!qv_is_q(f->y)) return "it needs a quantized tensor of 8 or 16 bits";
  size_t top = qv_little_endian() ? f->size - 1 : 0;
  for (int64_t i = 0; i < f->elements; i++) f->data[(size_t)i * f->size + top] ^= 0x80;
  return NULL;
}

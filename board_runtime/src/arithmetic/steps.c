/* Scales a sum by a multiplier and shifts, or an exact value, each rounded by a rule (NUMERICS.md section 1). */
#include "steps.h"

#define FARTHEST 63   /* bits of a shift to the right */
#define RULES 0xF77   /* bits of the rules, of which each is at most QV_CEILING */
#define MOST_SHORT 62 /* bits of a shift of a short value: one more gives the same where the rule has no halves */

static int rule_of(int32_t rules, int k) { return rules >> (4 * k) & 7; }

qv_status qv_check_steps(qv_model *m, const qv_node *n, const qv_steps *s, const char *what, int64_t number, int32_t below,
                         int32_t lifted) {
  int known = !(s->rules & ~RULES) && rule_of(s->rules, 0) <= QV_CEILING && rule_of(s->rules, 1) <= QV_CEILING &&
              rule_of(s->rules, 2) <= QV_CEILING;
  if (s->multiplier < below || s->pre < -FARTHEST || s->pre > lifted || s->first < 0 || s->first > FARTHEST || s->last < 0 ||
      s->last > FARTHEST || !known)
    return qv_fail(m, n, QV_E_FORMAT,
                   "%s %ld has multiplier %d, shifts %d, %d and %d, and rules 0x%x, wanted %d or more, -63 to %d, 0 to 63, 0 to 63, and "
                   "rules of 0 to 6",
                   what, (long)number, s->multiplier, s->pre, s->first, s->last, (unsigned)s->rules, below, lifted);
  return QV_OK;
}

int64_t qv_shift_right(int64_t value, int shift) { return value < 0 ? ~(~value >> shift) : value >> shift; }

/* Returns whether a value between two integers goes to the upper one. more, tie: whether it is above the middle, at it. at: the
   lower one, with the zero point if that counts. */
static int goes_up(int rule, int more, int tie, int between, int64_t at) {
  switch (rule) {
    case QV_HALF_UP: return more || tie;
    case QV_HALF_EVEN: return more || (tie && at & 1);
    case QV_HALF_AWAY: return more || (tie && at >= 0);
    case QV_HALF_DOWN: return more;
    case QV_TOWARD_ZERO: return between && at < 0;
    case QV_CEILING: return between;
    default: return 0;
  }
}

static int64_t shift_by_rule(int64_t value, int32_t shift, int rule, int64_t zero) {
  if (!shift) return value;
  uint64_t rest = (uint64_t)value & (((uint64_t)1 << shift) - 1), half = (uint64_t)1 << (shift - 1);
  int64_t low = qv_shift_right(value, shift);
  return low + goes_up(rule, rest > half, rest == half, rest != 0, low + zero);
}

static int64_t saturate32(int64_t x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x; }

int64_t qv_apply_steps(const qv_steps *s, int64_t acc, int32_t zero) {
  if (s->pre < 0) acc = shift_by_rule(acc, -s->pre, rule_of(s->rules, 0), 0);
  if (s->pre > 0) acc = saturate32(saturate32(acc) * ((int64_t)1 << s->pre));
  int32_t magnitude = s->multiplier < 0 ? -s->multiplier : s->multiplier;
  int64_t value = (int64_t)((uint64_t)acc * (uint64_t)magnitude); /* wraps, because a malicious file can exceed the range */
  value = shift_by_rule(value, s->first, rule_of(s->rules, 1), 0);
  value = shift_by_rule(value, s->last, rule_of(s->rules, 2), s->rules >> 8 & QV_ZERO_INSIDE ? zero : 0);
  return s->multiplier < 0 ? (int64_t)(0 - (uint64_t)value) : value;
}

int32_t qv_round_real(double v, int code, int32_t zero) {
  int32_t low = (int32_t)v;
  low -= (double)low > v;
  double rest = v - (double)low;
  return low + goes_up(code & 7, rest > 0.5, rest == 0.5, rest > 0.0, low + (code & QV_ZERO_INSIDE ? zero : 0));
}

qv_short_shift qv_short_shift_of(int32_t shift, int code, int32_t zero) {
  int rule = code & 7, halves = rule <= QV_HALF_DOWN;
  qv_short_shift r = {0, 0, 0, halves || shift <= MOST_SHORT ? shift : MOST_SHORT, code & QV_ZERO_INSIDE ? zero : 0};
  if (!shift) return r;
  int64_t half = (int64_t)1 << (r.shift - 1), all = halves ? 0 : ((int64_t)1 << r.shift) - 1;
  r.add = rule == QV_CEILING ? all : !halves ? 0 : rule == QV_HALF_EVEN || rule == QV_HALF_DOWN ? half - 1 : half;
  r.below = rule == QV_HALF_AWAY ? -1 : rule == QV_TOWARD_ZERO ? all : 0;
  r.odd = rule == QV_HALF_EVEN;
  return r;
}

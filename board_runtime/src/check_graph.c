/* Checks how the nodes and tensors of a loaded model are connected: tensors are computed before they are read, their
   flags agree with GRPH, and interior tensors lie inside a unit. */
#include "check_graph.h"

#include <string.h>

/* Checks that exactly the tensors listed in GRPH have the input and output flags, by which the arena decides what to
   keep. first_use is used as a mark here, before lifetimes are planned. */
static qv_status check_flags(qv_model *m) {
  for (int i = 0; i < m->n_inputs; i++) m->tensors[m->inputs[i]].first_use |= QV_INPUT;
  for (int i = 0; i < m->n_outputs; i++) m->tensors[m->outputs[i]].first_use |= QV_OUTPUT;
  for (int i = 0; i < m->n_tensors; i++)
    if ((int32_t)(m->tensors[i].flags & (QV_INPUT | QV_OUTPUT)) != m->tensors[i].first_use)
      return qv_refuse(m, QV_E_FORMAT, "tensor %.100s: its input or output flag disagrees with GRPH: %u, wanted %d", m->tensors[i].name,
                       (unsigned)m->tensors[i].flags & (QV_INPUT | QV_OUTPUT), m->tensors[i].first_use);
  return QV_OK;
}

enum { MADE_BY_DEQUANTIZE = 1, READ_BY_QUANTIZE = 2, READ_BY_ITS_LOOKUP = 4, READ_BY_ITS_PART = 8, READ_OTHERWISE = 16 };

/* Returns whether n is a lookup whose output is called NAME and is not interior, where `before` is called
   NAME/preactivation. */
static int is_its_lookup(const qv_model *m, const qv_node *n, const qv_tensor *before) {
  const qv_tensor *after = qv_out(m, n, 0);
  size_t length = strlen(after->name);
  return strcmp(n->op_name, "lookup") == 0 && !(after->flags & QV_INTERIOR) && strncmp(before->name, after->name, length) == 0 &&
         strcmp(before->name + length, "/preactivation") == 0;
}

/* Returns whether `before` is called NAME@PART, where PART is no number, and every output of n NAME or NAME@ with another part. */
static int makes_its_tensor(const qv_model *m, const qv_node *n, const qv_tensor *before) {
  const char *at = strrchr(before->name, '@');
  if (!at || (at[1] && strspn(at + 1, "0123456789") == strlen(at + 1))) return 0;
  size_t length = (size_t)(at - before->name);
  for (int i = 0; i < n->n_outputs; i++) {
    const char *name = m->tensors[n->outputs[i]].name;
    if (strncmp(name, before->name, length) != 0 || (name[length] && name[length] != '@')) return 0;
  }
  return 1;
}

/* Returns whether an interior tensor lies inside a unit. t->last_use: the marks of its maker and its readers. */
static int is_inside_unit(const qv_tensor *t) {
  if (t->dtype == QV_F32)
    return t->last_use & MADE_BY_DEQUANTIZE || (t->last_use && !(t->last_use & ~(READ_BY_QUANTIZE | READ_BY_ITS_PART)));
  int plain = t->n_scales == 0 && (t->dtype == QV_S8 || t->dtype == QV_S16 || t->dtype == QV_I32 || t->dtype == QV_I64);
  if (plain && t->last_use == READ_BY_ITS_PART) return 1;
  return t->flags & QV_NO_INTEGER_REFERENCE && t->last_use == READ_BY_ITS_LOOKUP;
}

/* Checks that a tensor is interior only if the next tensor that is not interior shows its value (FORMAT.md). last_use
   is used as a mark here, before lifetimes are planned. */
static qv_status check_interior(qv_model *m) {
  for (int i = 0; i < m->n_tensors; i++) m->tensors[i].last_use = 0;
  for (int k = 0; k < m->n_nodes; k++) {
    const qv_node *n = &m->nodes[k];
    for (int i = 0; i < n->n_inputs; i++) {
      if (n->inputs[i] < 0) continue;
      qv_tensor *t = &m->tensors[n->inputs[i]];
      int32_t mark = READ_BY_ITS_LOOKUP;
      if (t->last_use & READ_BY_ITS_LOOKUP || !is_its_lookup(m, n, t))
        mark = strcmp(n->op_name, "quantize") == 0 ? READ_BY_QUANTIZE : makes_its_tensor(m, n, t) ? READ_BY_ITS_PART : READ_OTHERWISE;
      t->last_use |= mark;
    }
    if (strcmp(n->op_name, "dequantize") == 0) m->tensors[n->outputs[0]].last_use |= MADE_BY_DEQUANTIZE;
  }
  for (int i = 0; i < m->n_tensors; i++) {
    const qv_tensor *t = &m->tensors[i];
    if (!(t->flags & QV_INTERIOR)) continue;
    if (!is_inside_unit(t) || t->flags & (QV_CONSTANT | QV_INPUT | QV_OUTPUT))
      return qv_refuse(m, QV_E_FORMAT, "tensor %.100s: flagged interior, and is not inside a unit: flags %u", t->name, (unsigned)t->flags);
  }
  return QV_OK;
}

/* Checks that float16 is only at the ends of the graph, where half_float alone reads and computes it: no other op has
   to refuse it. */
static qv_status check_float16(qv_model *m) {
  for (int i = 0; i < m->n_tensors; i++)
    if (m->tensors[i].dtype == QV_F16 && !(m->tensors[i].flags & (QV_INPUT | QV_OUTPUT)))
      return qv_refuse(m, QV_E_FORMAT, "tensor %.100s: float16, and no input or output of the graph", m->tensors[i].name);
  for (int k = 0; k < m->n_nodes; k++) {
    const qv_node *n = &m->nodes[k];
    int found = 0;
    for (int i = 0; i < n->n_inputs; i++) found |= n->inputs[i] >= 0 && m->tensors[n->inputs[i]].dtype == QV_F16;
    for (int i = 0; i < n->n_outputs; i++) found |= qv_out(m, n, i)->dtype == QV_F16;
    if (found && strcmp(n->op_name, "half_float") != 0) return qv_fail(m, n, QV_E_FORMAT, "a float16 operand, which half_float alone has");
  }
  return QV_OK;
}

/* Checks that each tensor is a constant, a graph input, or computed by exactly one node before it is read. arena_offset
   is used as a mark: 0 as soon as the tensor has a value. */
static qv_status check_order(qv_model *m) {
  for (int i = 0; i < m->n_tensors; i++) m->tensors[i].arena_offset = m->tensors[i].flags & QV_CONSTANT ? 0 : -1;
  for (int i = 0; i < m->n_inputs; i++) {
    int at = m->inputs[i];
    if (at < 0 || at >= m->n_tensors || m->tensors[at].arena_offset == 0)
      return qv_refuse(m, QV_E_FORMAT, "graph input %d: tensor %d, wanted one of %d that is no constant and no other input", i, at,
                       m->n_tensors);
    m->tensors[at].arena_offset = 0;
  }
  for (int k = 0; k < m->n_nodes; k++) {
    const qv_node *n = &m->nodes[k];
    for (int i = 0; i < n->n_inputs; i++)
      if (n->inputs[i] < -1 || n->inputs[i] >= m->n_tensors || (n->inputs[i] >= 0 && m->tensors[n->inputs[i]].arena_offset != 0))
        return qv_refuse(m, QV_E_FORMAT, "node %.100s: input %d is tensor %d of %d, which nothing makes before it is read", n->name, i,
                         n->inputs[i], m->n_tensors);
    for (int i = 0; i < n->n_outputs; i++) {
      if (n->outputs[i] < 0 || n->outputs[i] >= m->n_tensors || m->tensors[n->outputs[i]].arena_offset == 0)
        return qv_refuse(m, QV_E_FORMAT, "node %.100s: output %d is tensor %d of %d, wanted one that nothing made before", n->name, i,
                         n->outputs[i], m->n_tensors);
      m->tensors[n->outputs[i]].arena_offset = 0;
    }
    if (strcmp(n->name, m->tensors[n->outputs[0]].name) != 0)
      return qv_refuse(m, QV_E_FORMAT, "node %.100s: not named after its first output, %.100s", n->name, m->tensors[n->outputs[0]].name);
  }
  for (int i = 0; i < m->n_outputs; i++)
    if (m->outputs[i] < 0 || m->outputs[i] >= m->n_tensors || m->tensors[m->outputs[i]].arena_offset != 0)
      return qv_refuse(m, QV_E_FORMAT, "graph output %d is tensor %d of %d, which is never made", i, m->outputs[i], m->n_tensors);
  for (int i = 0; i < m->n_tensors; i++)
    if (m->tensors[i].arena_offset != 0) return qv_refuse(m, QV_E_FORMAT, "tensor %.100s is never made", m->tensors[i].name);
  return QV_OK;
}

qv_status qv_check_graph(qv_model *m) {
  qv_status status = check_order(m);
  if (status == QV_OK) status = check_flags(m);
  if (status == QV_OK) status = check_float16(m);
  return status == QV_OK ? check_interior(m) : status;
}

/* An external delegate of LiteRT for tests: it takes over nodes of one kind, computes them by LiteRT's own kernels, and spoils
 * the output of one of them if it is told to. Options:
 *   kind=CODE     the builtin operator that it takes over (3: CONV_2D); -1: every one
 *   apart=1       each node is a partition of its own, so that every tensor stays visible; else neighbours are one
 *   spoils=HEX    FNV-1a (32 bits) of the name of the output that is spoiled; none: everything is computed rightly
 *   seed=NUMBER   chooses the channel that is spoiled, and by how much
 * The structures below are those of LiteRT's public C ABI (tflite/core/c/common.h), as far as this file needs them. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int size; int data[]; } Ints;
typedef struct Context Context;
typedef struct Delegate Delegate;
typedef struct Registration Registration;

typedef struct { int type; uint8_t *data; Ints *dims; float scale; int32_t zero_point; int allocation; size_t bytes; const void *mapped; const char *name; Delegate *delegate; int buffer_handle; bool stale, variable; int quantization_type; void *quantization; void *sparsity; const Ints *signature; } Tensor;
typedef struct { Ints *inputs, *outputs, *intermediates, *temporaries; void *user_data, *builtin_data; const void *custom; int custom_size; Delegate *delegate; bool side_effect; } Node;
struct Registration {
    void *(*init)(Context *, const char *, size_t);
    void (*free)(Context *, void *);
    int (*prepare)(Context *, Node *);
    int (*invoke)(Context *, Node *);
    const char *(*profiling_string)(const Context *, const Node *);
    int32_t builtin_code;
    const char *custom_name;
    int version;
    void *external, *async_kernel;
    uint64_t inplace;
};
struct Context {
    size_t tensors_size;
    int (*execution_plan)(Context *, Ints **);
    Tensor *tensors;
    void *impl;
    int (*resize)(Context *, Tensor *, Ints *);
    void (*report)(Context *, const char *, ...);
    int (*add_tensors)(Context *, int, int *);
    int (*node)(Context *, int, Node **, Registration **);
    int (*replace)(Context *, Registration, const Ints *, Delegate *);
};
struct Delegate {
    void *data;
    int (*prepare)(Context *, Delegate *);
    void *copy_from, *copy_to, *free_handle;
    int64_t flags;
    void *builder;
};
typedef struct { Delegate *delegate; Ints *nodes, *inputs, *outputs; } Part;
typedef struct { int kind; bool apart, spoils; uint32_t output, seed; } Settings;
typedef struct { Settings settings; int count; Node *nodes; Registration *registrations; uint8_t *visible; } Kernel;

static uint32_t fnv(const char *text) {
    uint32_t hash = 2166136261u;
    for (; *text; text++) hash = (hash ^ (uint8_t)*text) * 16777619u;
    return hash;
}

static Ints *none(void) { return calloc(1, sizeof(Ints)); }

static void *start(Context *context, const char *buffer, size_t size) {
    (void)size;
    const Part *part = (const Part *)buffer;
    Kernel *kernel = calloc(1, sizeof *kernel);
    kernel->settings = *(Settings *)part->delegate->data;
    kernel->count = part->nodes->size;
    kernel->nodes = calloc((size_t)kernel->count, sizeof(Node));
    kernel->registrations = calloc((size_t)kernel->count, sizeof(Registration));
    kernel->visible = calloc((size_t)kernel->count, 1);
    for (int i = 0; i < kernel->count; i++) {
        Node *node;
        Registration *registration;
        if (context->node(context, part->nodes->data[i], &node, &registration)) continue;
        kernel->nodes[i] = *node; /* LiteRT moves its nodes, and frees the lists of its own */
        kernel->nodes[i].temporaries = none();
        kernel->registrations[i] = *registration;
        for (int o = 0; o < part->outputs->size; o++) kernel->visible[i] |= part->outputs->data[o] == node->outputs->data[0];
    }
    return kernel;
}

static void end(Context *context, void *data) {
    (void)context;
    Kernel *kernel = data;
    for (int i = 0; i < kernel->count; i++) free(kernel->nodes[i].temporaries);
    free(kernel->nodes);
    free(kernel->registrations);
    free(kernel->visible);
    free(kernel);
}

static int prepare(Context *context, Node *own) {
    Kernel *kernel = own->user_data;
    int total = 0;
    for (int i = 0; i < kernel->count; i++) {
        if (kernel->registrations[i].prepare && kernel->registrations[i].prepare(context, &kernel->nodes[i])) return 1;
        total += kernel->nodes[i].temporaries->size;
    }
    free(own->temporaries);
    own->temporaries = calloc(1, sizeof(Ints) + (size_t)total * sizeof(int));
    for (int i = 0; i < kernel->count; i++)
        for (int t = 0; t < kernel->nodes[i].temporaries->size; t++) own->temporaries->data[own->temporaries->size++] = kernel->nodes[i].temporaries->data[t];
    return 0;
}

static void spoil(const Tensor *tensor, uint32_t seed) {
    uint32_t channels = tensor->dims->size ? (uint32_t)tensor->dims->data[tensor->dims->size - 1] : 1;
    int8_t *values = (int8_t *)tensor->data;
    int by = 8 + (int)(seed * 2654435761u >> 28) * 3; /* 8 to 53 */
    for (size_t at = seed % channels; at < tensor->bytes; at += channels) values[at] = (int8_t)(values[at] + (values[at] > 127 - by ? -by : by));
}

static int run(Context *context, Node *own) {
    Kernel *kernel = own->user_data;
    uint8_t **held = calloc((size_t)kernel->count, sizeof *held);
    int status = 0;
    for (int i = 0; i < kernel->count && !status; i++) {
        Tensor *output = &context->tensors[kernel->nodes[i].outputs->data[0]];
        if (!kernel->visible[i]) output->data = held[i] = malloc(output->bytes + 64);
        status = kernel->registrations[i].invoke(context, &kernel->nodes[i]);
        if (!status && kernel->settings.spoils && fnv(output->name) == kernel->settings.output) spoil(output, kernel->settings.seed);
    }
    for (int i = 0; i < kernel->count; i++)
        if (held[i]) {
            context->tensors[kernel->nodes[i].outputs->data[0]].data = NULL;
            free(held[i]);
        }
    free(held);
    return status;
}

static int take_over(Context *context, Delegate *delegate) {
    const Settings *settings = delegate->data;
    Registration registration = {start, end, prepare, run, NULL, 0, "SpoilingDelegate", 1, NULL, NULL, 0};
    Ints *plan, *taken;
    if (context->execution_plan(context, &plan)) return 1;
    Ints *kept = malloc(sizeof(Ints) + (size_t)plan->size * sizeof(int)); /* the plan changes with each replacement */
    memcpy(kept, plan, sizeof(Ints) + (size_t)plan->size * sizeof(int));
    taken = calloc(1, sizeof(Ints) + (size_t)kept->size * sizeof(int));
    int status = 0;
    for (int i = 0; i < kept->size && !status; i++) {
        Node *node;
        Registration *found;
        status = context->node(context, kept->data[i], &node, &found);
        if (status || (settings->kind >= 0 && found->builtin_code != settings->kind)) continue;
        taken->data[taken->size++] = kept->data[i];
        if (!settings->apart) continue;
        status = context->replace(context, registration, taken, delegate);
        taken->size = 0;
    }
    if (!status && taken->size) status = context->replace(context, registration, taken, delegate);
    free(kept);
    free(taken);
    return status;
}

Delegate *tflite_plugin_create_delegate(char **keys, char **values, size_t count, void (*report)(const char *)) {
    Settings *settings = calloc(1, sizeof *settings);
    settings->kind = -1;
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(keys[i], "kind")) settings->kind = atoi(values[i]);
        else if (!strcmp(keys[i], "apart")) settings->apart = atoi(values[i]) != 0;
        else if (!strcmp(keys[i], "spoils")) settings->spoils = true, settings->output = (uint32_t)strtoul(values[i], NULL, 16);
        else if (!strcmp(keys[i], "seed")) settings->seed = (uint32_t)strtoul(values[i], NULL, 10);
        else {
            char line[200];
            snprintf(line, sizeof line, "unknown option %.100s", keys[i]);
            report(line);
            free(settings);
            return NULL;
        }
    }
    Delegate *delegate = calloc(1, sizeof *delegate);
    delegate->data = settings;
    delegate->prepare = take_over;
    return delegate;
}

void tflite_plugin_destroy_delegate(Delegate *delegate) {
    if (!delegate) return;
    free(delegate->data);
    free(delegate);
}

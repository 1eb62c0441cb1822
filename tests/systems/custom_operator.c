/* A vendor's custom operator as its onnxruntime loads it: vendor::Half, y = floor(x / 2) in float32.
 *
 * The header of onnxruntime's C API is neither in its wheel nor in Debian; declared here are the few facts of that public
 * ABI that an operator needs: the order of the first 102 functions of OrtApi, which may not change, and OrtCustomOp as of
 * version 8. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*Function)(void);
typedef struct {
    Function at[102];
} OrtApi;
typedef struct {
    const OrtApi *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
} OrtApiBase;
enum { CreateCustomOpDomain = 26, CustomOpDomainAdd = 27, AddCustomOpDomain = 28, GetTensorMutableData = 51 };
enum { GetDimensionsCount = 61, GetDimensions = 62, GetTensorShapeElementCount = 64, GetTensorTypeAndShape = 65 };
enum { KernelContextGetInput = 90, KernelContextGetOutput = 91, ReleaseTensorTypeAndShapeInfo = 99 };
enum { VERSION = 8, FLOAT = 1, REQUIRED = 0, MOST_DIMS = 8 };

typedef struct Operator Operator;
struct Operator {
    uint32_t version;
    void *(*CreateKernel)(const Operator *, const OrtApi *, const void *info);
    const char *(*GetName)(const Operator *);
    const char *(*GetExecutionProviderType)(const Operator *);
    int (*GetInputType)(const Operator *, size_t);
    size_t (*GetInputTypeCount)(const Operator *);
    int (*GetOutputType)(const Operator *, size_t);
    size_t (*GetOutputTypeCount)(const Operator *);
    void (*KernelCompute)(void *kernel, void *context);
    void (*KernelDestroy)(void *kernel);
    int (*GetInputCharacteristic)(const Operator *, size_t);
    int (*GetOutputCharacteristic)(const Operator *, size_t);
};

static const OrtApi *api;

static void *create(const Operator *op, const OrtApi *given, const void *info) {
    (void)given, (void)info;
    return (void *)(uintptr_t)op;
}
static const char *name(const Operator *op) { return (void)op, "Half"; }
static const char *provider(const Operator *op) { return (void)op, NULL; }
static int type(const Operator *op, size_t at) { return (void)op, (void)at, FLOAT; }
static size_t one(const Operator *op) { return (void)op, 1; }
static int required(const Operator *op, size_t at) { return (void)op, (void)at, REQUIRED; }
static void destroy(void *kernel) { (void)kernel; }

static void compute(void *kernel, void *context) {
    const void *x = NULL;
    void *info = NULL, *y = NULL, *from = NULL, *to = NULL;
    int64_t dims[MOST_DIMS];
    size_t rank = 0, count = 0;
    (void)kernel;
    ((void *(*)(const void *, size_t, const void **))api->at[KernelContextGetInput])(context, 0, &x);
    ((void *(*)(const void *, void **))api->at[GetTensorTypeAndShape])(x, &info);
    ((void *(*)(const void *, size_t *))api->at[GetDimensionsCount])(info, &rank);
    if (rank > MOST_DIMS) return;
    ((void *(*)(const void *, int64_t *, size_t))api->at[GetDimensions])(info, dims, rank);
    ((void *(*)(const void *, size_t *))api->at[GetTensorShapeElementCount])(info, &count);
    ((void (*)(void *))api->at[ReleaseTensorTypeAndShapeInfo])(info);
    ((void *(*)(void *, size_t, const int64_t *, size_t, void **))api->at[KernelContextGetOutput])(context, 0, dims, rank, &y);
    ((void *(*)(const void *, void **))api->at[GetTensorMutableData])(x, &from);
    ((void *(*)(void *, void **))api->at[GetTensorMutableData])(y, &to);
    for (size_t i = 0; i < count; i++) ((float *)to)[i] = floorf(((float *)from)[i] / 2);
}

static const Operator half = {VERSION, create, name, provider, type, one, type, one, compute, destroy, required, required};

void *RegisterCustomOps(void *options, const OrtApiBase *base) {
    void *domain = NULL, *status;
    api = base->GetApi(VERSION);
    status = ((void *(*)(const char *, void **))api->at[CreateCustomOpDomain])("vendor", &domain);
    if (!status) status = ((void *(*)(void *, const Operator *))api->at[CustomOpDomainAdd])(domain, &half);
    if (!status) status = ((void *(*)(void *, void *))api->at[AddCustomOpDomain])(options, domain);
    return status;
}

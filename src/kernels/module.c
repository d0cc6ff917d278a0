/* `emsco._core`: the kernels for Python, which gives them arrays.
 *
 * Every argument is described in a table: what it holds, and one letter per dimension. Dimensions of
 * the same letter must be equal, so a kernel cannot reach beyond an array by its shape. Arrays are
 * contiguous; those of three dimensions may have gaps between their layers. */

#include "kernels.h"
#include "row.h"

#include <string.h>

enum { MOST = 32, LETTERS = 26 };

typedef struct {
    const char *name;
    char holds;        /* i: int64, u: uint64, d: double, b: bool, c: uint8, h: uint32 */
    bool is_written;
    const char *shape; /* a letter per dimension */
} Argument;

typedef struct {
    Py_buffer views[MOST];
    size_t n_views;
    Py_ssize_t size[LETTERS]; /* of each letter; -1 if it has not been seen */
} Arrays;

static bool holds(const Py_buffer *view, char kind)
{
    const char *format = view->format ? view->format : "B";
    if (*format == '@' || *format == '=')
        format++;
    const char *known = kind == 'i' ? "lq" : kind == 'u' ? "LQ" : kind == 'd' ? "d"
                      : kind == 'b' ? "?" : kind == 'c' ? "B" : "IL";
    const Py_ssize_t bytes = strchr("iud", kind) ? 8 : kind == 'h' ? 4 : 1;
    return format[0] && !format[1] && strchr(known, format[0]) && view->itemsize == bytes;
}

/* Say whether values follow one another, but for gaps between the layers of three dimensions. */
static bool is_dense(const Py_buffer *view)
{
    Py_ssize_t bytes = view->itemsize;
    for (int k = view->ndim - 1; k >= 0; k--) {
        const bool may_have_gaps = k == 0 && view->ndim == 3 && view->strides[k] >= bytes;
        if (view->shape[k] > 1 && view->strides[k] != bytes && !may_have_gaps)
            return false;
        bytes *= view->shape[k];
    }
    return true;
}

static void release(Arrays *arrays)
{
    while (arrays->n_views > 0)
        PyBuffer_Release(&arrays->views[--arrays->n_views]);
}

/* Take arrays as described; on failure set an exception and hold none. */
static bool take(Arrays *arrays, const Argument *described, size_t n, PyObject *const *given)
{
    arrays->n_views = 0;
    for (size_t i = 0; i < LETTERS; i++)
        arrays->size[i] = -1;
    for (size_t i = 0; i < n; i++) {
        const Argument *one = &described[i];
        Py_buffer *view = &arrays->views[i];
        if (PyObject_GetBuffer(given[i], view, one->is_written ? PyBUF_RECORDS : PyBUF_RECORDS_RO) < 0) {
            release(arrays);
            return false;
        }
        arrays->n_views++;
        if (!holds(view, one->holds) || view->ndim != (int)strlen(one->shape) || !is_dense(view)) {
            PyErr_Format(PyExc_TypeError, "`%s` has another type, number of dimensions or order.", one->name);
            release(arrays);
            return false;
        }
        for (int k = 0; k < view->ndim; k++) {
            Py_ssize_t *size = &arrays->size[one->shape[k] - 'a'];
            if (*size >= 0 && *size != view->shape[k]) {
                PyErr_Format(PyExc_ValueError, "`%s` has %zd in dimension %d, not %zd.", one->name,
                             view->shape[k], k, *size);
                release(arrays);
                return false;
            }
            *size = view->shape[k];
        }
    }
    return true;
}

static size_t size(const Arrays *arrays, char letter)
{
    return (size_t)arrays->size[letter - 'a'];
}

static void *array(const Arrays *arrays, size_t i)
{
    return arrays->views[i].buf;
}

static Lines lines(const Arrays *arrays, size_t i)
{
    const Py_buffer *view = &arrays->views[i];
    return (Lines){view->buf, (size_t)(view->strides[0] / view->itemsize)};
}

static Planes planes(const Arrays *arrays, size_t i)
{
    const Py_buffer *view = &arrays->views[i];
    return (Planes){(size_t)view->shape[1], view->buf};
}

/* Say whether stakes have few enough bits for sums of them: 40, of 2^23 rows. */
static bool are_few(Planes planes)
{
    if (planes.count <= 40)
        return true;
    PyErr_SetString(PyExc_ValueError, "`planes` has more than 40 bits a row.");
    return false;
}

static bool count_is(Py_ssize_t given, size_t wanted, const char *name)
{
    if ((size_t)given == wanted)
        return true;
    PyErr_Format(PyExc_TypeError, "%s takes %zu arguments, got %zd.", name, wanted, given);
    return false;
}

/* Say whether every number of an array is from `least` to below `end`. */
static bool within(const int64_t *numbers, size_t n, int64_t least, int64_t end, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (numbers[i] < least || numbers[i] >= end) {
            PyErr_Format(PyExc_IndexError, "`%s` has %lld at %zu, not from %lld to below %lld.", name,
                         (long long)numbers[i], i, (long long)least, (long long)end);
            return false;
        }
    }
    return true;
}

/* Say whether chains lie within the tables. */
static bool are_chains(Chains chains, size_t n_sets, size_t tables, size_t sets, int64_t least)
{
    if (!within(chains.positions, n_sets, least, (int64_t)sets, "positions") ||
        !within(chains.which, n_sets, 0, (int64_t)tables, "which") ||
        !within(chains.begins, chains.designs + 1, 0, (int64_t)n_sets + 1, "begins"))
        return false;
    for (size_t d = 0; d < chains.designs; d++) {
        if (chains.begins[d] >= chains.begins[d + 1]) {
            PyErr_SetString(PyExc_IndexError, "`begins` has a chain without a set.");
            return false;
        }
    }
    return true;
}

static const Argument EVALUATE_CHAINS[] = {
    {"positions", 'i', false, "s"},      {"prices", 'i', false, "s"},
    {"which", 'i', false, "s"},          {"begins", 'i', false, "b"},
    {"accepted", 'u', false, "tnw"},     {"right", 'u', false, "tnw"},
    {"everyone", 'u', false, "w"},       {"planes", 'u', false, "wp"},
    {"masks", 'u', false, "cw"},
    {"out_accepted", 'i', true, "d"},    {"out_right", 'i', true, "d"},
    {"out_paid", 'i', true, "d"},        {"out_class_accepted", 'i', true, "dc"},
    {"out_class_right", 'i', true, "dc"}, {"out_reached", 'i', true, "s"},
};

static PyObject *py_evaluate_chains(PyObject *self, PyObject *const *given, Py_ssize_t n_given)
{
    (void)self;
    Arrays a;
    const size_t n = sizeof EVALUATE_CHAINS / sizeof *EVALUATE_CHAINS;
    if (!count_is(n_given, n, "evaluate_chains") || !take(&a, EVALUATE_CHAINS, n, given))
        return NULL;
    PyObject *result = NULL;
    uint64_t *undecided = PyMem_Malloc(size(&a, 'w') * sizeof *undecided + 1);
    const Chains chains = {size(&a, 'd'), array(&a, 0), array(&a, 2), array(&a, 3)};
    const Outcomes table = {size(&a, 'w'), lines(&a, 4), lines(&a, 5), array(&a, 6), planes(&a, 7)};
    const Masks masks = {size(&a, 'c'), array(&a, 8)};
    const Counts out = {array(&a, 9), array(&a, 10), array(&a, 11), array(&a, 12), array(&a, 13), array(&a, 14)};
    if (undecided == NULL) {
        PyErr_NoMemory();
    } else if (size(&a, 'b') != chains.designs + 1) {
        PyErr_SetString(PyExc_ValueError, "`begins` has one entry more than there are designs.");
    } else if (are_few(table.planes) &&
               are_chains(chains, size(&a, 's'), size(&a, 't'), size(&a, 'n'), -1)) {
        const int64_t *prices = array(&a, 1);
        Py_BEGIN_ALLOW_THREADS
        evaluate_chains(chains, prices, table, masks, undecided, out);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    PyMem_Free(undecided);
    release(&a);
    return result;
}

static const Argument COUNT_LABELS[] = {
    {"positions", 'i', false, "s"},  {"which", 'i', false, "s"},     {"begins", 'i', false, "b"},
    {"accepted", 'u', false, "tnw"}, {"labels", 'u', false, "lnw"},  {"everyone", 'u', false, "w"},
    {"planes", 'u', false, "wp"},    {"out", 'i', true, "dc"},
};

static PyObject *py_count_labels(PyObject *self, PyObject *const *given, Py_ssize_t n_given)
{
    (void)self;
    Arrays a;
    const size_t n = sizeof COUNT_LABELS / sizeof *COUNT_LABELS;
    if (!count_is(n_given, n, "count_labels") || !take(&a, COUNT_LABELS, n, given))
        return NULL;
    PyObject *result = NULL;
    uint64_t *undecided = PyMem_Malloc(size(&a, 'w') * sizeof *undecided + 1);
    const Chains chains = {size(&a, 'd'), array(&a, 0), array(&a, 1), array(&a, 2)};
    const Outcomes table = {size(&a, 'w'), lines(&a, 3), {NULL, 0}, array(&a, 5), planes(&a, 6)};
    if (undecided == NULL) {
        PyErr_NoMemory();
    } else if (size(&a, 'b') != chains.designs + 1) {
        PyErr_SetString(PyExc_ValueError, "`begins` has one entry more than there are designs.");
    } else if (are_few(table.planes) &&
               are_chains(chains, size(&a, 's'), size(&a, 't'), size(&a, 'n'), 0)) {
        Py_BEGIN_ALLOW_THREADS
        count_labels(chains, table, lines(&a, 4), size(&a, 'l'), size(&a, 'c'), undecided, array(&a, 7));
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    PyMem_Free(undecided);
    release(&a);
    return result;
}

static const Argument WALK[] = {
    {"firsts", 'i', false, "f"},        {"accepted", 'u', false, "nw"},
    {"right", 'u', false, "nw"},        {"price", 'i', false, "n"},
    {"exists", 'b', false, "n"},        {"spread", 'u', false, "n"},
    {"missed_masks", 'u', false, "mw"}, {"most_missed", 'i', false, "m"},   {"rejected_masks", 'u', false, "rw"},
    {"most_rejected", 'i', false, "r"}, {"least", 'i', true, "p"},
    {"cells", 'i', true, "ek"},         {"keys", 'u', true, "e"},
    {"state", 'i', true, "q"},          {"chain", 'i', true, "d"},
    {"rest", 'i', true, "d"},           {"following", 'i', true, "d"},
    {"undecided", 'u', true, "dw"},     {"sums", 'i', true, "dq"},
    {"missed", 'i', true, "dm"},        {"spreads", 'u', true, "d"},
    {"planes", 'u', false, "wx"},
};

static PyObject *py_walk(PyObject *self, PyObject *const *given, Py_ssize_t n_given)
{
    (void)self;
    Arrays a;
    const size_t n = sizeof WALK / sizeof *WALK;
    if (!count_is(n_given, n + 4, "walk") || !take(&a, WALK, n, given))
        return NULL;
    const int64_t max_stages = PyLong_AsLongLong(given[n]);
    const int use_all = PyObject_IsTrue(given[n + 1]);
    const int64_t width = PyLong_AsLongLong(given[n + 2]), step = PyLong_AsLongLong(given[n + 3]);
    const size_t words = size(&a, 'w'), sets = size(&a, 'n'), room = size(&a, 'e');
    const int64_t *state = array(&a, 13);
    uint64_t *left_open = PyMem_Malloc(words * sizeof *left_open + 1);
    int64_t *scratch = PyMem_Malloc(size(&a, 'm') * sizeof *scratch + 1);
    PyObject *result = NULL;
    if (PyErr_Occurred()) {
        ;
    } else if (left_open == NULL || scratch == NULL) {
        PyErr_NoMemory();
    } else if (size(&a, 'q') != 4 || (int64_t)size(&a, 'd') < max_stages + 2 || width < 1 || step < 0 ||
               size(&a, 'p') != (size_t)(width * width) || size(&a, 'k') != (step ? 4u : 2u) ||
               (step ? room < sets + 2 : room != size(&a, 'p')) || state[0] < 0 || state[1] < 0 ||
               state[1] > max_stages || state[3] < 0) {
        PyErr_SetString(PyExc_ValueError, "The arrays of a walk do not fit one another.");
    } else if (are_few(planes(&a, 21)) &&
               within(array(&a, 0), size(&a, 'f'), 0, (int64_t)sets, "firsts")) {
        Walk w = {
            .sets = sets, .words = words, .accepted = array(&a, 1), .right = array(&a, 2),
            .firsts = array(&a, 0), .n_firsts = size(&a, 'f'),
            .max_stages = max_stages, .use_all = use_all,
            .price = array(&a, 3), .exists = array(&a, 4), .spread = array(&a, 5),
            .missed_masks = {size(&a, 'm'), array(&a, 6)}, .most_missed = array(&a, 7),
            .rejected_masks = {size(&a, 'r'), array(&a, 8)}, .most_rejected = array(&a, 9),
            .least = array(&a, 10), .width = width, .step = step,
            .cells = array(&a, 11), .room = room, .keys = array(&a, 12),
            .state = array(&a, 13), .chain = array(&a, 14), .rest = array(&a, 15),
            .following = array(&a, 16), .undecided = array(&a, 17), .sums = array(&a, 18),
            .missed = array(&a, 19), .spreads = array(&a, 20),
            .planes = planes(&a, 21), .left_open = left_open, .scratch = scratch,
        };
        bool finished;
        Py_BEGIN_ALLOW_THREADS
        finished = walk(&w);
        Py_END_ALLOW_THREADS
        result = PyBool_FromLong(finished);
    }
    PyMem_Free(left_open);
    PyMem_Free(scratch);
    release(&a);
    return result;
}

static const Argument ADD_LEAVES[] = {
    {"X", 'd', false, "xc"},          {"sets", 'u', false, "s"},
    {"source", 'i', false, "c"},      {"begins", 'i', false, "b"},
    {"feature", 'i', false, "n"},     {"threshold", 'd', false, "n"},
    {"missing_left", 'c', false, "n"}, {"left", 'h', false, "n"},
    {"right", 'h', false, "n"},       {"is_leaf", 'c', false, "n"},
    {"value", 'd', false, "n"},       {"raw", 'd', true, "xks"},
};

static PyObject *py_add_leaves(PyObject *self, PyObject *const *given, Py_ssize_t n_given)
{
    (void)self;
    Arrays a;
    const size_t n = sizeof ADD_LEAVES / sizeof *ADD_LEAVES;
    if (!count_is(n_given, n, "add_leaves") || !take(&a, ADD_LEAVES, n, given))
        return NULL;
    const size_t nodes = size(&a, 'n'), columns = size(&a, 'c'), classes = size(&a, 'k');
    const Trees trees = {
        size(&a, 'b') - 1, array(&a, 3), array(&a, 4), array(&a, 5), array(&a, 6), array(&a, 9),
        array(&a, 7), array(&a, 8), array(&a, 10),
    };
    const size_t room = nodes + 1;
    const Todo todo = {
        PyMem_Malloc(room * sizeof *todo.node), PyMem_Malloc(room * sizeof *todo.known),
        PyMem_Malloc(room * sizeof *todo.bought),
    };
    bool fits = size(&a, 'b') > 0 && classes > 0 &&
                within(trees.begins, size(&a, 'b'), 0, (int64_t)nodes + 1, "begins") &&
                within(array(&a, 2), columns, 0, 64, "source") &&
                within(trees.feature, nodes, 0, (int64_t)columns + 64, "feature");
    for (size_t tree = 0; fits && tree < trees.trees; tree++) {
        const int64_t first = trees.begins[tree], end = trees.begins[tree + 1];
        fits = first < end;
        for (int64_t i = first; fits && i < end; i++) /* children follow: a walk ends */
            fits = trees.is_leaf[i] || (trees.left[i] > i - first && trees.left[i] < end - first &&
                                        trees.right[i] > i - first && trees.right[i] < end - first);
    }
    PyObject *result = NULL;
    if (!todo.node || !todo.known || !todo.bought) {
        PyErr_NoMemory();
    } else if (!fits) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "The nodes are no trees.");
    } else {
        Py_BEGIN_ALLOW_THREADS
        add_leaves(array(&a, 0), size(&a, 'x'), columns, array(&a, 1), size(&a, 's'), array(&a, 2),
                   trees, classes, todo, array(&a, 11));
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    PyMem_Free(todo.node);
    PyMem_Free(todo.known);
    PyMem_Free(todo.bought);
    release(&a);
    return result;
}

static PyMethodDef METHODS[] = {
    {"evaluate_chains", (PyCFunction)(void (*)(void))py_evaluate_chains, METH_FASTCALL,
     "Count accepted rows, right ones and price units for many designs."},
    {"count_labels", (PyCFunction)(void (*)(void))py_count_labels, METH_FASTCALL,
     "Count for many designs the rows accepted under each label."},
    {"walk", (PyCFunction)(void (*)(void))py_walk, METH_FASTCALL,
     "Walk every chain of sets that starts with one of `firsts`; return whether it is finished."},
    {"add_leaves", (PyCFunction)(void (*)(void))py_add_leaves, METH_FASTCALL,
     "Add the leaf of each tree to each row and set."},
    {"read_numbers", (PyCFunction)(void (*)(void))py_read_numbers, METH_FASTCALL,
     "Read the numbers of a row into their places; return whether all are usual."},
    {"add_products", (PyCFunction)(void (*)(void))py_add_products, METH_FASTCALL,
     "Add slope times value, in order."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot SLOTS[] = {
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "emsco._core", "Loops over packed bits and trees.", 0, METHODS, SLOTS,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&MODULE);
}

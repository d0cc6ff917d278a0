/* One row, whose values are Python's own numbers: no array is made of a handful of them.
 *
 * What is fixed comes as bytes, which hold C numbers and are read without a copy. */

#include "row.h"

#include <stdbool.h>
#include <stdint.h>

/* Find the numbers in bytes, and how many there are; NULL with an exception if these are no bytes. */
static const void *numbers_in(PyObject *bytes, size_t size, Py_ssize_t *n)
{
    char *text;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(bytes, &text, &length) < 0)
        return NULL;
    *n = length / (Py_ssize_t)size;
    return text;
}

/* Read a float or an integer that lies within the limits; -1 with an exception, 0 if it is neither. */
static int read_usual(PyObject *value, double low, double high, double *number)
{
    if (PyFloat_CheckExact(value)) {
        *number = PyFloat_AsDouble(value);
    } else if (PyLong_CheckExact(value)) {
        *number = PyLong_AsDouble(value);
        if (*number == -1.0 && PyErr_Occurred()) {
            if (!PyErr_ExceptionMatches(PyExc_OverflowError))
                return -1;
            PyErr_Clear();
            return 0;
        }
    } else {
        return 0;
    }
    return low <= *number && *number <= high;
}

PyObject *py_read_numbers(PyObject *self, PyObject *const *given, Py_ssize_t n_given)
{
    (void)self;
    if (n_given != 6) {
        PyErr_Format(PyExc_TypeError, "read_numbers takes 6 arguments, got %zd.", n_given);
        return NULL;
    }
    PyObject *row = given[0], *features = given[1], *values = given[4];
    Py_ssize_t n_lows, n_highs;
    const double *lows = numbers_in(given[2], sizeof *lows, &n_lows);
    const double *highs = lows ? numbers_in(given[3], sizeof *highs, &n_highs) : NULL;
    const Py_ssize_t begin = PyLong_AsSsize_t(given[5]);
    if (highs == NULL || (begin == -1 && PyErr_Occurred()))
        return NULL;
    const Py_ssize_t n = PyTuple_Size(features), room = PyList_Size(values);
    if (n < 0 || room < 0)
        return NULL;
    if (n != n_lows || n != n_highs || begin < 0 || begin > room - n) {
        PyErr_SetString(PyExc_ValueError, "Features, limits and places differ in number.");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *value = PyObject_GetItem(row, PyTuple_GetItem(features, i));
        if (value == NULL)
            return NULL;
        double number = 0.0;
        const int usual = read_usual(value, lows[i], highs[i], &number);
        Py_DECREF(value);
        if (usual <= 0)
            return usual < 0 ? NULL : Py_NewRef(Py_False);
        PyObject *read = PyFloat_FromDouble(number);
        if (read == NULL || PyList_SetItem(values, begin + i, read) < 0)
            return NULL;
    }
    return Py_NewRef(Py_True);
}

PyObject *py_add_products(PyObject *self, PyObject *const *given, Py_ssize_t n_given)
{
    (void)self;
    if (n_given != 3) {
        PyErr_Format(PyExc_TypeError, "add_products takes 3 arguments, got %zd.", n_given);
        return NULL;
    }
    PyObject *values = given[0];
    Py_ssize_t n_places, n_slopes;
    const int64_t *places = numbers_in(given[1], sizeof *places, &n_places);
    const double *slopes = places ? numbers_in(given[2], sizeof *slopes, &n_slopes) : NULL;
    const Py_ssize_t room = PyList_Size(values);
    if (slopes == NULL || room < 0)
        return NULL;
    if (n_places != n_slopes) {
        PyErr_SetString(PyExc_ValueError, "Places and slopes differ in number.");
        return NULL;
    }
    double sum = 0.0;
    for (Py_ssize_t i = 0; i < n_places; i++) {
        if (places[i] < 0 || places[i] >= room) {
            PyErr_SetString(PyExc_IndexError, "A place is beyond the values.");
            return NULL;
        }
        const double value = PyFloat_AsDouble(PyList_GetItem(values, (Py_ssize_t)places[i]));
        if (value == -1.0 && PyErr_Occurred())
            return NULL;
        sum += slopes[i] * value;
    }
    return PyFloat_FromDouble(sum);
}

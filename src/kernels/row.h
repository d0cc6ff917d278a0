/* Python's own numbers, for the decision on a single row. */
#ifndef EMSCO_ROW_H
#define EMSCO_ROW_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *py_read_numbers(PyObject *self, PyObject *const *given, Py_ssize_t n_given);
PyObject *py_add_products(PyObject *self, PyObject *const *given, Py_ssize_t n_given);

#endif

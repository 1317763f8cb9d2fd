"""The same equations and samplers, in the words of other libraries: `holonax.interop.diffrax`, `.blackjax`."""

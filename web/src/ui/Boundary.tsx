import { Component, type ReactNode } from 'react'

interface BoundaryProps {
  /** What cannot be drawn, as the subject of a sentence. */
  what: string
  children: ReactNode
}

/** Keeps a fault in drawing one thing from taking the rest of the page with it: cards must stay answerable. */
export class Boundary extends Component<BoundaryProps, { failed: boolean }> {
  override state = { failed: false }

  static getDerivedStateFromError(): { failed: boolean } {
    return { failed: true }
  }

  override render(): ReactNode {
    if (!this.state.failed) return this.props.children
    return (
      <p className="error" role="alert">
        {this.props.what} cannot be drawn.{' '}
        <button type="button" onClick={() => this.setState({ failed: false })}>
          Try again
        </button>
      </p>
    )
  }
}
